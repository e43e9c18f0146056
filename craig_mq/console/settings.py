"""What one console looks after, and what it may do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import attrs

from craig_mq.core.siblings import SiblingQueues
from craig_mq.operator.lease import MAX_SCAN


@attrs.define(frozen=True, slots=True, kw_only=True)
class ConsoleSettings(SiblingQueues):
    """``queue`` is the dead-letter queue; ``folder`` holds plans, journals and the console's own record.

    ``now`` gives seconds since the Unix epoch, ``hot_window_s`` is how long the ledger keeps a token hot.
    ``audit_url`` may hold a password: it is never shown.
    """

    queue: str
    folder: Path
    who: str
    hot_window_s: float
    audit_url: str | None = attrs.field(default=None, repr=False)
    service: str | None = None
    allow_redrive: bool = False
    accept_delivery_count: bool = False
    max_scan: int = MAX_SCAN
    now: Callable[[], float] = time.time
