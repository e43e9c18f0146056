"""The operator's page: one process, one loopback address, one queue's quarantine.

Python reads, judges, plans and acts through ``craig_mq.operator``, and words every sentence; the scripts in
``assets/`` only show them.
"""
