"""The audit ledger: a committed row is one of the two kinds of evidence that permit an ack."""
