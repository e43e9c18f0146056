"""What happened, said once as typed events; logs and metrics only subscribe (architecture, principle 10)."""
