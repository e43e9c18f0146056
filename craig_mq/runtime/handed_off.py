"""A publish on its way that no task waits for."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from craig_mq.core.outcome import Confirmation, Unconfirmed
from craig_mq.runtime.deadlines import Bounded
from craig_mq.transport.broker import Channel

_ABANDONED = Unconfirmed("the session ended first")


class HandedOff(msgspec.Struct, eq=False):
    """A publish that no task waits for; it is bounded, and heard, like one that a task waits for.

    ``resolve`` ends its bound and learns from the outcome, before ``told`` hears it.
    """

    resolve: Callable[[Bounded, Channel, Confirmation], None]
    channel: Channel
    told: Callable[[Confirmation], None] | None

    def confirmed(self, confirmation: Confirmation) -> None:
        """Tell the first outcome; what comes after the bound, or after it was abandoned, is dropped."""
        told, self.told = self.told, None
        if told is not None:
            self.resolve(self, self.channel, confirmation)
            told(confirmation)

    def cancel(self, *, reason: str) -> None:
        """The bound has passed: nobody knows."""
        self.confirmed(Unconfirmed(reason))

    def abandon(self) -> None:
        """Tell nothing; the outcome stays unknown."""
        self.told = None
        self.resolve(self, self.channel, _ABANDONED)
