"""Looking for what would break the promises, before it does; UNKNOWN wherever nobody can tell."""
