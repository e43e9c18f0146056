"""Replays a log through the model: every report must be the one the model gives to the same inputs (S52)."""

from __future__ import annotations

from collections import deque

from supervisors.actions import Report
from supervisors.events import Event, HookRaised, InputTaken, SupervisorStarted
from supervisors.roster import Roster
from supervisors.tree import SupervisorSnapshot, take_snapshot


class TraceError(AssertionError):
    """The log does not follow from its own inputs."""


class TraceChecker:
    """An observer that folds ``step`` over the inputs as they come and compares every report.

    ``check(event)`` raises ``TraceError`` at the first event that does not follow. As an observer its
    exceptions are kept by the supervisor, so it also keeps the first one in ``error``.
    """

    def __init__(self) -> None:
        self._rosters: dict[str, Roster] = {}
        self._expected: dict[str, deque[Event]] = {}
        self.error: TraceError | None = None

    def __call__(self, event: Event) -> None:
        """``check``, for use as an observer."""
        try:
            self.check(event)
        except TraceError as error:
            self.error = self.error or error
            raise

    def __fingerprint__(self) -> object:
        return self.error is None

    def check(self, event: Event) -> None:
        """Take the next event of the log."""
        if isinstance(event, SupervisorStarted):
            self._rosters[event.path] = Roster(event.spec, event.path, event.at)
            self._expected[event.path] = deque()
        elif isinstance(event, InputTaken):
            self._take(event)
        elif not isinstance(event, HookRaised):
            expected = self._expected.get(event.path)
            if not expected or expected.popleft() != event:
                raise TraceError(f"the model did not report {event}")

    def snapshot(self, path: str) -> SupervisorSnapshot:
        """The folded state of one supervisor, without the supervisors nested in it."""
        return take_snapshot(self._rosters[path], nested_in=lambda _: None)

    def finish(self) -> None:
        """The log is over: raise if a report is missing, or a supervisor was left open."""
        if self.error is not None:
            raise self.error
        for path, roster in self._rosters.items():
            if self._expected[path]:
                raise TraceError(f"{path}: the log lacks {self._expected[path][0]}")
            if not roster.head.closed:
                raise TraceError(f"{path} was left open")

    def _take(self, event: InputTaken) -> None:
        roster = self._rosters.get(event.path)
        if roster is None:
            raise TraceError(f"{event.path} took an input before it started")
        expected = self._expected[event.path]
        if expected:
            raise TraceError(f"{event.path}: the log lacks {expected[0]}")
        effects = roster.feed(event.input, event.at)
        expected.extend(effect.event for effect in effects if isinstance(effect, Report))


def check_trace(events: list[Event]) -> None:
    """Check a whole log. Raises ``TraceError``, or ``IllegalInputError`` for an input that cannot happen."""
    checker = TraceChecker()
    for event in events:
        checker.check(event)
    checker.finish()
