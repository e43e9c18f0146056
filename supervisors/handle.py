"""The operations of a supervisor's handle. Each posts one input to the mailbox; none touches a child."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

import attrs
import trio

from supervisors.errors import ClosedError
from supervisors.exits import End
from supervisors.flag import Flag
from supervisors.generations import Generations
from supervisors.inputs import (
    CancelRequested,
    DeleteChild,
    DrainRequested,
    Input,
    Request,
    RestartChild,
    StartChild,
    TerminateChild,
)
from supervisors.mailbox import Mailbox
from supervisors.roster import Roster
from supervisors.spec import ChildSpec, SupervisorSpec, check_child
from supervisors.tree import ChildCounts, ChildSnapshot, SupervisorSnapshot, take_snapshot


@attrs.define
class PendingAnswer:
    """Where the answer to one ticket will lie."""

    done: trio.Event = attrs.Factory(trio.Event)
    value: object = None
    error: Exception | None = None


class Handle:
    """What a handle offers while its supervisor runs. After the end every operation raises (S6)."""

    __slots__ = (
        "_changing",
        "_closed",
        "_generations",
        "_mailbox",
        "_pending",
        "_roster",
        "_tickets",
        "path",
        "spec",
    )

    def __init__(self, spec: SupervisorSpec, path: str) -> None:
        self.spec = spec
        self.path = path
        self._mailbox = Mailbox()
        self._closed = Flag()
        self._changing = Flag()
        self._tickets = itertools.count(1)
        self._pending: dict[int, PendingAnswer] = {}
        self._roster: Roster | None = None
        self._generations: Generations | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"  # no address: traces of one seed are equal (S57)

    def shutdown(self, reason: str = "shutdown requested") -> None:
        """Ask for a drain (S45). Synchronous; also before the first start, which then never happens (S11)."""
        self._post_open(DrainRequested(reason))

    def cancel(self, reason: str) -> None:
        """Ask for a stop at once; it may overtake a drain (S45). Synchronous."""
        self._post_open(CancelRequested(reason))

    @property
    def closed(self) -> bool:
        """True once ``run()`` has ended."""
        return self._closed.is_set()

    async def wait_closed(self) -> None:
        """Return once ``run()`` has ended. Cancelling the wait touches nothing."""
        await self._closed.wait()

    async def start_child(self, spec: ChildSpec) -> object:
        """Add a child at the end and start it; returns what it passed to ``started()``.

        Raises ``StartError`` if the start failed; with ``start_failure="fail"`` the child is not kept, with
        ``"retry"`` it is in BACKOFF. Raises ``DuplicateChildError``, ``SpecError``, ``StoppingError``,
        ``ClosedError``. A cancelled call leaves the request standing.
        """
        check_child(self.spec, spec)
        return await self._ask(lambda ticket: StartChild(ticket, spec))

    async def terminate_child(self, child: str) -> End | None:
        """Drain the child, cancel it past its drain deadline, return its end; it stays known, as DONE.

        None if no generation of it ever ended. Raises ``NoSuchChildError``, ``StoppingError``,
        ``ClosedError``. A cancelled call leaves the request standing.
        """
        return cast("End | None", await self._ask(lambda ticket: TerminateChild(ticket, child)))

    async def restart_child(self, child: str) -> object:
        """Start a child again that is DONE; returns what it passed to ``started()``.

        Raises ``ChildLiveError`` if it is not DONE, ``StartError``, ``NoSuchChildError``, ``StoppingError``,
        ``ClosedError``. A cancelled call leaves the request standing.
        """
        return await self._ask(lambda ticket: RestartChild(ticket, child))

    async def delete_child(self, child: str) -> None:
        """Forget a child that is DONE. Raises as ``restart_child``."""
        await self._ask(lambda ticket: DeleteChild(ticket, child))

    @property
    def ready(self) -> bool:
        """S12, for this supervisor and for every supervisor nested in a significant child."""
        roster, generations = self._roster, self._generations
        if roster is None or generations is None or not roster.head.ready:
            return False
        return all(
            inner.ready for child, inner in generations.hosted.items() if roster[child].spec.significant
        )

    async def wait_ready(self) -> None:
        """Return once ``ready``. Raises ``ClosedError`` if the supervisor ends first."""
        await trio.lowlevel.checkpoint()
        while not self.ready:
            if self._closed.is_set():
                raise ClosedError(f"{self.path} ended before it was ready")
            await self._changing.wait()

    def snapshot(self) -> SupervisorSnapshot:
        """The subtree as it is now; consistent, never waits, legal after the end (S55)."""
        if self._roster is None:
            return take_snapshot(Roster(self.spec, self.path, 0.0), nested_in=lambda _: None)
        generations = self._generations
        return take_snapshot(
            self._roster, nested_in=lambda child: None if generations is None else generations.nested(child)
        )

    def which_children(self) -> tuple[ChildSnapshot, ...]:
        """Every child, in declaration order."""
        return self.snapshot().children

    def count_children(self) -> ChildCounts:
        """How many children there are, and how many of them are live."""
        children = self.which_children()
        live = sum(child.live for child in children)
        supervisors = sum(child.supervisor is not None for child in children)
        return ChildCounts(len(children), live, supervisors, len(children) - supervisors)

    def drain_from_parent(self, reason: str) -> None:
        """The parent's drain reached the child this supervisor is the body of."""
        if not self._closed.is_set():
            self._post(DrainRequested(reason))

    def _post(self, event: Input) -> None:
        self._mailbox.post(event)

    def _post_open(self, event: Input) -> None:
        if self._closed.is_set():
            raise ClosedError(f"{self.path} has ended")
        self._post(event)

    async def _ask(self, request: Callable[[int], Request]) -> object:
        ticket = next(self._tickets)
        self._post_open(request(ticket))
        pending = self._pending[ticket] = PendingAnswer()
        try:
            await pending.done.wait()
        finally:
            self._pending.pop(ticket, None)
        if pending.error is not None:
            raise pending.error
        return pending.value

    def _answer(self, ticket: int, value: object, error: Exception | None) -> None:
        """Give a caller its answer; a caller that was cancelled meanwhile has no ticket any more."""
        pending = self._pending.pop(ticket, None)
        if pending is not None:
            pending.value, pending.error = value, error
            pending.done.set()

    def _close(self) -> None:
        self._closed.set()
        for ticket in list(self._pending):
            self._answer(ticket, None, ClosedError(f"{self.path} has ended"))
        self._announce()

    def _announce(self) -> None:
        """Wake whoever waits for readiness."""
        changed, self._changing = self._changing, Flag()
        changed.set()
