"""The ready-made service behind ``craig-mq run``: one subscription, one ledger, one metrics address."""
