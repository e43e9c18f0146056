"""Crash points by process kill: a subscriber process leaves by ``os._exit`` at an await of its own."""
