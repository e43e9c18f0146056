"""The experiment's page: served by `craig-mq review serve`, or written as one offline file.

Python computes every event, snapshot, sentence and ledger row; the scripts in `assets/` only show them.
"""
