"""The outbox: events written in the caller's transaction, published at least once by a relay."""

from craig_mq.outbox.options import RelayOptions
from craig_mq.outbox.relay import RelayHandle, RelayStatistics, prune_outbox, run_relay
from craig_mq.outbox.table import RowSetAside, create_outbox, enqueue

__all__ = [
    "RelayHandle",
    "RelayOptions",
    "RelayStatistics",
    "RowSetAside",
    "create_outbox",
    "enqueue",
    "prune_outbox",
    "run_relay",
]
