"""A copy of a delivery on its way: handed off where nothing must be waited for, else a worker waits."""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Callable

import trio

from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Confirmation
from craig_mq.runtime.publishing import Publishing


class Copy:
    """One publication. ``told`` hears its outcome; ``act`` performs the effect that follows from it."""

    __slots__ = ("_act", "_publication", "_publishing", "_told")

    def __init__(
        self,
        publishing: Publishing,
        publication: Publication,
        told: Callable[[Confirmation], None],
        act: Callable[[], None],
    ) -> None:
        self._publishing = publishing
        self._publication = publication
        self._told = told
        self._act = act

    def hand_off(self) -> bool:
        """Publish, where nothing must be waited for: its confirm then performs what follows. Else False."""
        return self._publishing.publish_nowait(self._publication, self._told_last)

    async def publish(self, scope: trio.CancelScope) -> None:
        """Publish; ``told`` hears the outcome with no task switch behind the confirm, ``act`` is not called.

        Waits inside ``scope``, which is cancelled where no confirm comes in time. Cancelled from outside:
        the outcome is unknown and the delivery stays unacked.
        """
        await self._publishing.publish_within(scope, self._publication, self._told)

    def _told_last(self, confirmation: Confirmation) -> None:
        self._told(confirmation)
        self._act()
