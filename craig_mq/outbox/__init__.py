"""The outbox: events written in the caller's transaction, published at least once by a relay."""

from craig_mq.outbox.options import RelayOptions
from craig_mq.outbox.relay import RelayHandle, RelayStatistics, prune_outbox, run_relay
from craig_mq.outbox.table import create_outbox, enqueue

__all__ = [
    "RelayHandle",
    "RelayOptions",
    "RelayStatistics",
    "create_outbox",
    "enqueue",
    "prune_outbox",
    "run_relay",
]
