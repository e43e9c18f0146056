"""Typed reports, through one hook: ``observer(event)``. Times are absolute, in seconds of Trio's clock.

The stream is a log: ``InputTaken`` holds one input of the model, and the reports that follow it, up to the
next ``InputTaken`` of the same path, are what the model answered. Folding the inputs reproduces the
tree (S52).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from supervisors.exits import End

if TYPE_CHECKING:
    from supervisors.inputs import Input
    from supervisors.spec import ChildSpec, SupervisorSpec
    from supervisors.state import Cause, ChildState, StopMode


@attrs.frozen
class Event:
    """Anything reported. ``path`` is the supervisor's: names from the root, joined by ``/``."""

    path: str
    at: float


@attrs.frozen
class SupervisorStarted(Event):
    """``run()`` was entered; a restarted nested supervisor reports it again, with nothing remembered."""

    spec: SupervisorSpec


@attrs.frozen
class InputTaken(Event):
    """The model was fed ``input``."""

    input: Input


@attrs.frozen
class ChildAdded(Event):
    """A child is known from now on."""

    spec: ChildSpec


@attrs.frozen
class ChildMoved(Event):
    """A child changed its state."""

    child: str
    generation: int
    before: ChildState
    after: ChildState
    reason: str


@attrs.frozen
class ChildEnded(Event):
    """A generation finished. ``ours``: the supervisor caused it, so it costs nothing (S19)."""

    child: str
    generation: int
    end: End
    ours: bool


@attrs.frozen
class BackoffChosen(Event):
    """The wait before generation ``generation``, told before it begins (S26)."""

    child: str
    generation: int
    delay_s: float
    wake_at: float


@attrs.frozen
class GroupRestart(Event):
    """``leader`` ended and the strategy restarts its group: one budget event (S23)."""

    leader: str
    generation: int


@attrs.frozen
class ChildStuck(Event):
    """A child outlived its stop deadline; ``count`` intervals so far (S50)."""

    child: str
    generation: int
    count: int


@attrs.frozen
class ReadinessChanged(Event):
    """S12."""

    ready: bool


@attrs.frozen
class StopAccepted(Event):
    """No start follows (S48)."""

    mode: StopMode
    reason: str


@attrs.frozen
class CauseNoted(Event):
    """``run()`` will raise this once everything has ended."""

    cause: Cause


@attrs.frozen
class SupervisorClosed(Event):
    """Every child has ended."""


@attrs.frozen
class HookRaised(Event):
    """A child's abort hook raised; supervision went on."""

    child: str
    error: Exception


Observer: TypeAlias = Callable[[Event], None]
