"""What an operator does: look, plan, redrive, drain, release, check. Nothing here runs by itself."""
