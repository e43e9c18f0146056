"""How a publisher runs: every wait has its bound."""

from __future__ import annotations

from datetime import timedelta

import attrs

from craig_mq.core.config_fields import duration, whole, within
from craig_mq.transport.broker import ConnectionOptions
from supervisors import Backoff


@attrs.define(frozen=True, slots=True)
class PublisherOptions:
    """Bounds of a publisher. Raises DlqConfigError for a value out of range.

    ``confirm_timeout`` bounds the wait for one confirm; its timer stands still while the broker says
    that publishing is blocked. ``patience`` bounds a whole publish: waiting for a connection, for the
    end of an alarm and for the confirm. At most ``max_in_flight`` publishes are under way at a time;
    the next ones wait, which is the back-pressure.
    """

    confirm_timeout: timedelta = attrs.field(
        default=timedelta(seconds=30), converter=duration, validator=within(0.001, 600)
    )
    patience: timedelta = attrs.field(
        default=timedelta(seconds=60), converter=duration, validator=within(0.001, 3_600)
    )
    max_in_flight: int = attrs.field(default=256, validator=whole(1, 65_535))
    connect_timeout: timedelta = attrs.field(
        default=timedelta(seconds=10), converter=duration, validator=within(0.001, 300)
    )
    rpc_timeout: timedelta = attrs.field(
        default=timedelta(seconds=10), converter=duration, validator=within(0.001, 300)
    )
    heartbeat: timedelta = attrs.field(
        default=timedelta(seconds=15), converter=duration, validator=within(1, 3_600)
    )
    backoff_base: timedelta = attrs.field(
        default=timedelta(seconds=1), converter=duration, validator=within(0.001, 300)
    )
    backoff_cap: timedelta = attrs.field(
        default=timedelta(seconds=30), converter=duration, validator=within(0.001, 3_600)
    )

    def connection(self, role: str) -> ConnectionOptions:
        """Return connection options whose name tells an operator what this connection is."""
        return ConnectionOptions(
            name=f"craig_mq {role}",
            connect_timeout=self.connect_timeout.total_seconds(),
            rpc_timeout=self.rpc_timeout.total_seconds(),
            heartbeat=max(1, round(self.heartbeat.total_seconds())),
        )

    def backoff(self) -> Backoff:
        """Return the waits between connections."""
        cap_s = self.backoff_cap.total_seconds()
        base_s = min(self.backoff_base.total_seconds(), cap_s)
        return Backoff(base_s=base_s, cap_s=cap_s, min_delay_s=min(0.05, base_s))
