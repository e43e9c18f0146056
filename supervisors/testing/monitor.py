"""Laws checked from outside, with no help from the model: what any correct supervisor shows its children."""

from __future__ import annotations

from collections.abc import Iterator

import trio

from supervisors.context import ChildContext
from supervisors.events import (
    BackoffChosen,
    CauseNoted,
    ChildEnded,
    ChildMoved,
    Event,
    StopAccepted,
    SupervisorStarted,
)
from supervisors.exits import error_of, leaves
from supervisors.spec import Body
from supervisors.state import LIVE, ChildState, FatalEnd, OwnError


class LawBrokenError(AssertionError):
    """A law does not hold. The text names the rule."""


class Monitor:
    """Watches bodies and events; the first broken law is kept, and raised by ``finish``.

    Wrap every body in ``watch`` and pass the monitor as observer. S2: no two generations of a child overlap.
    S32: no restart before its published wake-up. S48: no start after a stop was accepted. S1: nothing is live
    at the end. S26: a delay is published before every restart. S14: what a stopping supervisor noted of its
    children's errors is in what it ends with.
    """

    def __init__(self) -> None:
        self.starts = 0
        self.broken: LawBrokenError | None = None
        self._live: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._wake_at: dict[str, float] = {}
        self._stopping: set[str] = set()
        self._noted: dict[str, list[BaseException]] = {}

    def __fingerprint__(self) -> object:
        return (
            dict(sorted(self._live.items())),
            dict(sorted(self._generations.items())),
            dict(sorted(self._wake_at.items())),
            self._stopping,
            {path: len(errors) for path, errors in sorted(self._noted.items())},
        )

    def watch(self, body: Body) -> Body:
        """The body, with its live section observed: from its first step to its last cleanup checkpoint."""

        async def watched(context: ChildContext) -> object:
            self._enter(context.path, context.generation)
            try:
                return await body(context)
            finally:
                self._live.pop(context.path, None)

        return watched

    def __call__(self, event: Event) -> None:
        """Take one report; raises ``LawBrokenError`` if it breaks a law."""
        if isinstance(event, SupervisorStarted):
            self._stopping.discard(event.path)
            prefix = event.path + "/"
            for known in [path for path in self._generations if path.startswith(prefix)]:
                del self._generations[known]
                self._wake_at.pop(known, None)
        elif isinstance(event, StopAccepted):
            self._stopping.add(event.path)
        elif isinstance(event, BackoffChosen):
            self._wake_at[f"{event.path}/{event.child}"] = event.wake_at
        elif isinstance(event, ChildMoved):
            self._moved(event)
        elif isinstance(event, CauseNoted):
            if isinstance(event.cause, OwnError | FatalEnd):
                own = error_of(event.cause.record.end)
                self._noted.setdefault(event.path, []).extend(() if own is None else _every_leaf(own))
        elif isinstance(event, ChildEnded):
            self.ended(f"{event.path}/{event.child}", error_of(event.end))

    def ended(self, path: str, error: BaseException | None) -> None:
        """The supervisor at ``path``, if it is one, ended with ``error``; for the root its caller says so."""
        carried = [] if error is None else list(_every_leaf(error))
        for noted in self._noted.pop(path, ()):
            if not any(leaf is noted for leaf in carried):
                self._break(f"S14: {path} noted {noted!r} and ended without it")

    def _moved(self, event: ChildMoved) -> None:
        if event.after is ChildState.STARTING and event.path in self._stopping:
            self._break(f"S48: {event.path} started {event.child} after it accepted a stop")
        if event.before is ChildState.BACKOFF and event.after is ChildState.DONE:
            # Terminated while it waited: whoever asks for it again need not wait for what was given up (S25).
            self._wake_at.pop(f"{event.path}/{event.child}", None)
        if event.before in LIVE and event.after not in LIVE and f"{event.path}/{event.child}" in self._live:
            self._break(f"S3: {event.path}/{event.child} counts as ended and is live")

    def _enter(self, path: str, generation: int) -> None:
        self.starts += 1
        if path in self._live:
            self._break(f"S2: {path} generation {generation} overlaps generation {self._live[path]}")
        if trio.current_time() < self._wake_at.get(path, 0.0):
            self._break(f"S32: {path} restarted before its wake-up")
        if generation <= self._generations.get(path, 0):
            self._break(f"S2: {path} ran generation {generation} twice")
        self._live[path] = self._generations[path] = generation

    def _break(self, text: str) -> None:
        self.broken = self.broken or LawBrokenError(text)
        raise self.broken

    def finish(self) -> None:
        """``run()`` has returned: raise the first broken law, or S1 if anything is still live."""
        if self.broken is not None:
            raise self.broken
        if self._live:
            raise LawBrokenError(f"S1: still live after run(): {self._live}")


def _every_leaf(error: BaseException) -> Iterator[BaseException]:
    """The leaves of an error and of whatever it names as its cause."""
    for leaf in leaves(error):
        yield leaf
        if leaf.__cause__ is not None:
            yield from _every_leaf(leaf.__cause__)
