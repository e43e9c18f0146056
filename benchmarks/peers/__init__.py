"""Bare loops of other clients: consume, publish mandatory and confirmed, ack. One process each.

Each module is run as ``python -m benchmarks.peers.NAME URL SOURCE TARGET COUNT PREFETCH`` and prints one
JSON object: ``seconds`` from the first consume to the last ack, ``cpu_seconds`` of the process in between.
"""
