"""The handle of a running subscription."""

from __future__ import annotations

import attrs

from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.statistics import DlqStatistics, Tally
from supervisors import Supervisor, SupervisorSnapshot
from supervisors.flag import Flag


@attrs.define(frozen=True, slots=True)
class ArmSnapshot:
    """Where one arm stands. ``consuming`` is more than connected: consume-ok has come (field failure ROB-03).

    ``blocked`` is the broker's reason while the publishing connection is blocked; ``last_end`` names
    how the previous session ended; ``size_limit`` is what the broker taught about capture sizes.
    """

    consuming: bool
    generation: int
    blocked: str | None
    last_end: str | None
    size_limit: int


@attrs.define(frozen=True, slots=True)
class SubscriptionSnapshot:
    """A consistent look at a subscription. ``error`` names what ended it, if anything did."""

    queue: str
    closed: bool
    error: str | None
    main: ArmSnapshot
    parking: ArmSnapshot
    tree: SupervisorSnapshot


class SubscriptionHandle:
    """What ``nursery.start`` returns for a subscription. Every method but ``wait_closed`` is synchronous."""

    def __init__(self, tree: Supervisor) -> None:
        self._tree = tree
        self._closed = Flag()
        self._error: BaseException | None = None

    def shutdown(self, reason: str = "shutdown requested") -> None:
        """Ask for a graceful end; idempotent, and harmless after the end."""
        if not self._closed.is_set():
            self._tree.shutdown(reason)

    async def wait_closed(self) -> None:
        """Return once the subscription has ended gracefully, or raise what ended it.

        Cancelled: the subscription goes on.
        """
        await self._closed.wait()
        if self._error is not None:
            raise self._error

    @property
    def error_name(self) -> str | None:
        """The type of what ended it, if anything did."""
        return None if self._error is None else type(self._error).__name__

    def note_closed(self, error: BaseException | None) -> None:
        """Say that it ended, and by what; the subscription's own task calls this once."""
        self._error = error
        self._closed.set()


class DlqSubscription(SubscriptionHandle):
    """The handle of ``subscribe_dlq``; on a shutdown main drains first, then parking."""

    def __init__(
        self, queue: str, tree: Supervisor, main: ArmMemory, parking: ArmMemory, tally: Tally
    ) -> None:
        super().__init__(tree)
        self._queue = queue
        self._main = main
        self._parking = parking
        self._tally = tally

    def snapshot(self) -> SubscriptionSnapshot:
        """Look at both arms and the tree. Legal after the end, too."""
        return SubscriptionSnapshot(
            self._queue,
            self._closed.is_set(),
            self.error_name,
            look(self._main),
            look(self._parking),
            self._tree.snapshot(),
        )

    def statistics(self) -> DlqStatistics:
        """Return the counters so far."""
        return self._tally.frozen()


def look(arm: ArmMemory) -> ArmSnapshot:
    """Return where an arm stands."""
    last_end = None if arm.last_end is None else arm.last_end.value
    return ArmSnapshot(arm.up, arm.generation, arm.blocked, last_end, arm.size_limit)
