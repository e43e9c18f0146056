"""How a relay runs."""

from __future__ import annotations

from datetime import timedelta

import attrs

from craig_mq.core.config_fields import duration, whole, within


@attrs.define(frozen=True, slots=True)
class RelayOptions:
    """Bounds of a relay. Raises DlqConfigError for a value out of range.

    ``poll_interval``: how soon a row is seen that nobody announced. ``batch``: rows read, and at most
    published, at a time. ``backoff_cap``: the longest wait after a pass that left rows unconfirmed,
    doubling from one second.
    """

    poll_interval: timedelta = attrs.field(
        default=timedelta(seconds=1), converter=duration, validator=within(0.001, 3_600)
    )
    batch: int = attrs.field(default=256, validator=whole(1, 10_000))
    backoff_cap: timedelta = attrs.field(
        default=timedelta(seconds=30), converter=duration, validator=within(0.001, 3_600)
    )
