"""Everything the model can be told. The interpreter's mailbox holds these, and the log replays them (S52)."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from supervisors.exits import Outcome
from supervisors.spec import ChildSpec


@attrs.frozen
class BringUp:
    """``run()`` was called: start the declared children in order."""


@attrs.frozen
class DrainRequested:
    """A graceful stop was asked for."""

    reason: str


@attrs.frozen
class CancelRequested:
    """A stop at once was asked for, or the parent's scope was cancelled."""

    reason: str


@attrs.frozen
class Started:
    """Generation ``generation`` of ``child`` reported started."""

    child: str
    generation: int
    value: object = None


@attrs.frozen
class Ended:
    """Generation ``generation`` of ``child`` and everything it started has finished."""

    child: str
    generation: int
    outcome: Outcome


@attrs.frozen
class TimerFired:
    """The child's timer is due."""

    child: str


@attrs.frozen
class StartChild:
    """Add a child and start it (S59)."""

    ticket: int
    spec: ChildSpec


@attrs.frozen
class TerminateChild:
    """Stop a child for good; it stays known (S59)."""

    ticket: int
    child: str


@attrs.frozen
class RestartChild:
    """Start a child again that has ended for good (S59)."""

    ticket: int
    child: str


@attrs.frozen
class DeleteChild:
    """Forget a child that has ended for good (S59)."""

    ticket: int
    child: str


@attrs.frozen
class Reached:
    """A walk reached the child. Derived by the roster, never posted."""

    child: str


@attrs.frozen
class WalkOver:
    """A walk has no further child. Derived by the roster, never posted."""


Input: TypeAlias = (
    BringUp
    | DrainRequested
    | CancelRequested
    | Started
    | Ended
    | TimerFired
    | StartChild
    | TerminateChild
    | RestartChild
    | DeleteChild
)
Derived: TypeAlias = Reached | WalkOver
Request: TypeAlias = StartChild | TerminateChild | RestartChild | DeleteChild

_ABOUT_NO_CHILD = (BringUp, DrainRequested, CancelRequested, WalkOver)


def child_of(event: Input | Derived) -> str | None:
    """The id of the child an input speaks of."""
    if isinstance(event, StartChild):
        return event.spec.id
    if isinstance(event, _ABOUT_NO_CHILD):
        return None
    return event.child
