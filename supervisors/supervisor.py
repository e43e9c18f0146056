"""The running supervisor: takes inputs, feeds the model, does what the model asks. It decides nothing."""

from __future__ import annotations

import math
from typing import assert_never

import trio

from supervisors.actions import Abort, Cancel, Drain, Effect, Finish, Reply, Report, SetTimer, Start
from supervisors.context import ChildContext
from supervisors.errors import ClosedError
from supervisors.events import Event, InputTaken, Observer, SupervisorStarted
from supervisors.generations import Generations
from supervisors.handle import Handle
from supervisors.inputs import BringUp, CancelRequested, Input, TimerFired
from supervisors.mailbox import Timers
from supervisors.roster import Roster
from supervisors.spec import SupervisorSpec
from supervisors.verdict import verdict


class Supervisor(Handle):
    """A supervisor tree's node; also its handle. Make one, then ``await nursery.start(supervisor.run)``.

    Every operation is legal from any task of the same Trio run. Nothing outlives ``run()`` (S1, S6).
    """

    __slots__ = (
        "_cancelled",
        "_context",
        "_observer",
        "_parent_cancel_taken",
        "_reported_started",
        "_timers",
        "last_observer_error",
        "observer_failures",
    )

    def __init__(
        self, spec: SupervisorSpec, *, observer: Observer | None = None, context: ChildContext | None = None
    ) -> None:
        path = spec.name if context is None else context.path
        super().__init__(spec, path)
        self._observer = observer
        self._context = context
        self._timers = Timers()
        self._cancelled: trio.Cancelled | None = None
        self._parent_cancel_taken = False
        self._reported_started = False
        self.observer_failures = 0
        self.last_observer_error: Exception | None = None

    async def run(  # noqa: ASYNC114 - the flag's list belongs to a project, this is a library
        self, *, task_status: trio.TaskStatus[Supervisor] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Bring up the children, supervise them, return once every descendant has finished (S1).

        Returns None after a clean stop. Raises what the children left: ``StartError``, ``IntensityError``,
        ``ChildError``, ``StuckError``, a fatal error whole, or a group of them. Cancelling the call stops the
        children in reverse order, each within its stop deadline, and then raises Cancelled (S5).
        Raises ``ClosedError`` if called twice.
        """
        if self._roster is not None or self._closed.is_set():
            raise ClosedError(f"{self.path} has run already")
        self._roster = Roster(self.spec, self.path, trio.current_time())
        self._observe(SupervisorStarted(self.path, trio.current_time(), self.spec))
        task_status.started(self)  # before the first child, so a stop request has an addressee (S11)
        broken: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._generations = Generations(
                    path=self.path,
                    nursery=nursery,
                    post=self._post,
                    on_change=self._changed,
                    observe=self._observe,
                    observer=self._observer,
                )
                try:
                    await self._supervise(self._roster)
                except BaseException as error:  # noqa: BLE001, ASYNC103 - raised below, after every child ended
                    broken = error
                    self._generations.cancel_all(f"the supervisor failed: {error!r}")
        finally:
            self._close()
        if broken is not None:
            raise broken
        if self._parent_cancel_taken and self._cancelled is None:
            await self._collect_parent_cancel()
        failure = verdict(self.path, self._roster.head.causes, self._cancelled)
        if failure is not None:
            raise failure

    async def _supervise(self, roster: Roster) -> None:  # noqa: ASYNC910 - nothing to wait for if nothing lives
        """Take inputs and timers. A parent's cancel becomes an input, once; then each wait is shielded.

        The except clause stands outside the deadline scope: a cancel that meets the deadline is kept (S51).
        With no timer and no shield there is no scope: most supervisors wait so, and most of the time.
        """
        self._post(BringUp())
        self._take_turn(roster)
        while not roster.head.closed:
            until, shielded = self._timers.next_at(), self._cancelled is not None
            try:
                if until == math.inf and not shielded:
                    await self._mailbox.wait()
                else:
                    with trio.CancelScope(deadline=until, shield=shielded):
                        await self._mailbox.wait()
            except trio.Cancelled as error:  # noqa: ASYNC103 - run() raises it once the children ended
                self._cancelled = error
                self._take_parent_cancel()
            self._take_turn(roster)

    def _take_turn(self, roster: Roster) -> None:
        for event in self._mailbox.take_all():
            self._take(roster, event)
        while (child := self._timers.pop_due(trio.current_time())) is not None:
            self._take(roster, TimerFired(child))

    async def _collect_parent_cancel(self) -> None:  # noqa: ASYNC910 - raises nothing, run() does
        """Catch a cancel that was only seen coming: raised here it would hide the children's errors (S14)."""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled as error:  # noqa: ASYNC103 - run() raises it, beside those errors
            self._cancelled = error

    def _take_parent_cancel(self) -> None:
        if not self._parent_cancel_taken:
            self._parent_cancel_taken = True
            self._post(CancelRequested("the parent's scope was cancelled"))

    def _take(self, roster: Roster, event: Input) -> None:
        """Feed one input. Before anything can start, look whether the own scope is cancelled (S48)."""
        now = trio.current_time()
        if not self._parent_cancel_taken and trio.current_effective_deadline() <= now:
            self._parent_cancel_taken = True
            self._feed(roster, CancelRequested("the parent's scope was cancelled"), now)
        self._feed(roster, event, now)

    def _feed(self, roster: Roster, event: Input, now: float) -> None:
        if roster.head.closed:
            return
        effects = roster.feed(event, now)
        self._observe(InputTaken(self.path, now, event))
        for effect in effects:
            if not isinstance(effect, Report):
                self._perform(effect)
        for effect in effects:
            if isinstance(effect, Report):
                self._observe(effect.event)
        self._changed()

    def _perform(self, effect: Effect) -> None:
        generations = self._generations
        if generations is None:
            raise ClosedError(f"{self.path} is not running")
        match effect:
            case Start(spec, generation):
                generations.start(spec, generation)
            case Drain(child, reason):
                generations.drain(child, reason)
            case Cancel(child, reason):
                generations.cancel(child, reason)
            case Abort(child):
                generations.abort(child)
            case SetTimer(child, at):
                self._timers.set(child, at)
            case Reply(ticket, value, error):
                self._answer(ticket, value, error)
            case Report() | Finish():
                pass
            case _:
                assert_never(effect)

    def _observe(self, event: Event) -> None:
        """S53: an observer that raises changes nothing; what it asks of the supervisor is queued."""
        if self._observer is None:
            return
        try:
            self._observer(event)
        except Exception as error:  # noqa: BLE001 - kept for whoever looks; supervision goes on
            self.observer_failures += 1
            self.last_observer_error = error

    def _changed(self) -> None:
        """Wake whoever waits for readiness, here and up the tree; report a nested bring-up."""
        self._announce()
        if self._context is None or self._roster is None:
            return
        head = self._roster.head
        if not (self._reported_started or head.bring_up or head.stop is not None):
            self._reported_started = True
            self._context.started(self)
        self._context.on_change()
