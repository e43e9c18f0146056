"""Everything the model can ask for. The interpreter does these and nothing else."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from supervisors.events import Event
from supervisors.spec import ChildSpec


@attrs.frozen
class Start:
    """Start a generation in a scope of its own."""

    spec: ChildSpec
    generation: int


@attrs.frozen
class Drain:
    """Request the child's graceful token."""

    child: str
    reason: str


@attrs.frozen
class Cancel:
    """Cancel the child's scope."""

    child: str
    reason: str


@attrs.frozen
class Abort:
    """Call the child's synchronous abort hook, if it set one (S50)."""

    child: str


@attrs.frozen
class SetTimer:
    """Fire at ``at``; it replaces the child's earlier timer. None: no timer."""

    child: str
    at: float | None


@attrs.frozen
class Reply:
    """Answer a dynamic request: ``error`` is raised to the caller, else it gets ``value``."""

    ticket: int
    value: object = None
    error: Exception | None = None


@attrs.frozen
class Report:
    """Tell the observer."""

    event: Event


@attrs.frozen
class Seek:
    """Walk on. From ``start`` (exclusive unless ``inclusive``), or from the end of the row if None.

    The roster answers with ``Reached`` or ``WalkOver``; it never leaves the model's side.
    """

    forward: bool
    start: str | None = None
    inclusive: bool = False


@attrs.frozen
class Finish:
    """Every child has ended and none will start."""


Effect: TypeAlias = Start | Drain | Cancel | Abort | SetTimer | Reply | Report | Finish
Action: TypeAlias = Effect | Seek
