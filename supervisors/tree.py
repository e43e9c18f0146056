"""Read-only snapshots of a live tree, and their renderings. Absolute times only (S52); never waits (S55)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from supervisors.exits import End, error_of
from supervisors.roster import Roster
from supervisors.state import Child, Head, StopMode

if TYPE_CHECKING:
    from supervisors.context import Nested


@attrs.frozen
class ChildSnapshot:
    """One child. ``since``/``timer_at`` are seconds of Trio's clock; ``delay_s`` is set in BACKOFF."""

    id: str
    state: str
    generation: int
    since: float
    restart: str
    significant: bool
    live: bool
    timer_at: float | None = None
    delay_s: float | None = None
    settlement_failures: int = 0
    start_failures: int = 0
    last_end: str | None = None
    stuck: int = 0
    supervisor: SupervisorSnapshot | None = None


@attrs.frozen
class SupervisorSnapshot:
    """One supervisor: its own state, then its children in declaration order."""

    path: str
    state: str
    ready: bool
    strategy: str
    stop_reason: str | None
    restarts: tuple[float, ...]
    children: tuple[ChildSnapshot, ...]


@attrs.frozen
class ChildCounts:
    """How many children there are; ``live`` ones have a generation, ``supervisors`` run a nested tree."""

    specs: int
    live: int
    supervisors: int
    workers: int


def take_snapshot(roster: Roster, *, nested_in: Callable[[str], Nested | None]) -> SupervisorSnapshot:
    """The model's state as a snapshot; ``nested_in`` finds the supervisor that runs as a child's body."""
    head = roster.head
    return SupervisorSnapshot(
        path=head.path,
        state=_head_state(head),
        ready=head.ready,
        strategy=head.spec.strategy.value,
        stop_reason=head.stop_reason,
        restarts=tuple(record.at for record in head.window.records),
        children=tuple(_child_snapshot(child, nested_in(child.spec.id)) for child in roster),
    )


def _head_state(head: Head) -> str:
    if head.closed:
        return "closed"
    if head.stop is not None:
        return "draining" if head.stop is StopMode.DRAIN else "cancelling"
    return "starting" if head.bring_up else "running"


def _child_snapshot(child: Child, nested: Nested | None) -> ChildSnapshot:
    return ChildSnapshot(
        id=child.spec.id,
        state=child.state.value,
        generation=child.generation,
        since=child.since,
        restart=child.spec.restart.value,
        significant=child.spec.significant,
        live=child.live,
        timer_at=child.timer_at,
        delay_s=child.delay_s,
        settlement_failures=child.counters.settlement,
        start_failures=child.counters.start,
        last_end=None if child.last_end is None else describe_end(child.last_end),
        stuck=child.stuck,
        supervisor=None if nested is None else nested.snapshot(),
    )


def describe_end(end: End) -> str:
    """One line for an end, without addresses: class, then the error's type and text."""
    error = error_of(end)
    name = end.end_class.value
    if error is not None:
        return f"{name}: {type(error).__name__}: {error}"
    reason = getattr(end, "reason", None)
    return f"{name}: {reason}" if reason else name


def to_json(snapshot: SupervisorSnapshot) -> dict[str, Any]:
    """The snapshot as JSON-ready values."""
    return attrs.asdict(snapshot)


def render(snapshot: SupervisorSnapshot, *, indent: str = "") -> str:
    """The snapshot as indented text, one line per node."""
    ready = "ready" if snapshot.ready else "not ready"
    reason = f", {snapshot.stop_reason}" if snapshot.stop_reason else ""
    lines = [f"{indent}{snapshot.path} [{snapshot.strategy}] {snapshot.state}, {ready}{reason}"]
    for child in snapshot.children:
        lines.append(f"{indent}  {_child_line(child)}")
        if child.supervisor is not None:
            lines.append(render(child.supervisor, indent=indent + "    "))
    return "\n".join(lines)


def _child_line(child: ChildSnapshot) -> str:
    line = f"{child.id} #{child.generation} {child.state} ({child.restart}) since {child.since:g}"
    if child.timer_at is not None:
        line += f", timer {child.timer_at:g}"
    if child.settlement_failures or child.start_failures:
        line += f", k={child.settlement_failures} f={child.start_failures}"
    if child.stuck:
        line += f", STUCK {child.stuck}"
    if child.last_end is not None:
        line += f", last end: {child.last_end}"
    return line
