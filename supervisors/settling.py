"""Settlements against shutdown: accepted at once, flushed un-raced and bounded, refused past the gate.

A session owns one ``SettlementGate``. Workers ask it directly before each settlement; one writer flushes
what was accepted. Nothing here knows a broker: ``write`` is the transport's, ``abort`` its last resort.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Literal, TypeVar

import attrs
import trio

T = TypeVar("T")


@attrs.frozen
class Flushed(Generic[T]):
    """What became of some settlements: ``written`` within the bound, or ``unknown`` (S40, S41)."""

    tags: tuple[T, ...]
    outcome: Literal["written", "unknown"]


class SettlementGate(Generic[T]):
    """Admits each settlement of one generation at most once, until closed (S39, S43).

    ``accept`` is synchronous: between a confirm and the settlement that rests on it there is no checkpoint.
    ``bound_s`` is the longest a settlement may stay unflushed, ``grace_s`` what a cancelled write may take to
    give up before the transport is aborted under it.
    """

    def __init__(self, *, bound_s: float = 5.0, grace_s: float = 1.0) -> None:
        self.closed_because: str | None = None
        self._bound_s = bound_s
        self._grace_s = grace_s
        self._admitted: set[T] = set()
        self._unflushed: list[tuple[float, T]] = []

    def close(self, reason: str) -> None:
        """Admit nothing more. What was accepted before keeps its bound and its true outcome."""
        if self.closed_because is None:
            self.closed_because = reason

    def accept(self, tag: T) -> bool:
        """Take one settlement for the next flush; False if the gate is closed or the tag was taken before."""
        if self.closed_because is not None or tag in self._admitted:
            return False
        self._admitted.add(tag)
        self._unflushed.append((trio.current_time(), tag))
        return True

    async def flush(  # noqa: ASYNC910 - with nothing accepted there is nothing to wait for
        self, write: Callable[[Sequence[T]], Awaitable[None]], abort: Callable[[], None]
    ) -> Flushed[T]:
        """Write everything accepted so far, shielded, until the oldest settlement's bound.

        Past the bound, or if ``write`` raises an Exception, the outcome is unknown even if the call reports
        success later; the gate closes and ``abort`` is called, by a sibling task if the write does not give
        up within the grace (S42). A cancel from outside is not raised here: it waits for the caller's next
        checkpoint, so the outcome is always told.
        """
        batch, self._unflushed = self._unflushed, []
        tags = tuple(tag for _, tag in batch)
        deadline = min((at for at, _ in batch), default=math.inf) + self._bound_s
        aborted = trio.Event()

        def abort_once() -> None:
            if not aborted.is_set():
                aborted.set()
                abort()

        async def abort_late() -> None:
            await trio.sleep_until(deadline + self._grace_s)
            abort_once()

        written = False
        if tags:
            with trio.CancelScope(shield=True):  # ends with the write: bounded by deadline, grace and abort
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(abort_late)
                    written = await _write_until(deadline, write, tags)
                    nursery.cancel_scope.cancel(reason="the flush ended")
        if tags and not written:
            self.close("a settlement is unknown")
            abort_once()
        return Flushed(tags, "written" if written or not tags else "unknown")  # noqa: ASYNC910 - as above


async def _write_until(  # noqa: ASYNC910 - ``write`` is the checkpoint
    deadline: float, write: Callable[[Sequence[T]], Awaitable[None]], tags: Sequence[T]
) -> bool:
    """True only for a clean return within the deadline, read inside the scope after the await (S41)."""
    with trio.CancelScope(deadline=deadline) as scope:  # noqa: ASYNC912 - ``write`` is the cancel point
        try:
            await write(tags)
        except Exception:  # noqa: BLE001 - any failed write is an unknown settlement
            return False  # noqa: ASYNC910 - as below
        return not scope.cancel_called  # noqa: ASYNC910 - ``write`` is the checkpoint
    return False  # noqa: ASYNC910 - as above
