"""The pure core: every decision craig_mq takes, with no I/O, clock, chance or logging.

Time, identifiers and randomness are arguments (architecture, principle 8), so each function here
is a table that a test can read back.
"""
