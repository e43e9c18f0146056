"""The embedded ledger: one SQLite file, WAL, every commit on the disk before its ack."""
