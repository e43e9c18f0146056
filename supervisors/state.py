"""What the model remembers: one Head per supervisor, one Child per child. Frozen; times are absolute."""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from supervisors.backoff import NO_FAILURES, Counters
from supervisors.exits import End, EndRecord
from supervisors.intensity import NO_ENDS, Window
from supervisors.spec import ChildSpec, SupervisorSpec


class ChildState(enum.Enum):
    """Where a child stands. STARTING, RUNNING, DRAINING and STOPPING are *live* (S2)."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPING = "stopping"
    BACKOFF = "backoff"
    DONE = "done"
    REMOVED = "removed"


LIVE: frozenset[ChildState] = frozenset(
    {ChildState.STARTING, ChildState.RUNNING, ChildState.DRAINING, ChildState.STOPPING}
)


GONE: frozenset[ChildState] = frozenset({ChildState.DONE, ChildState.REMOVED})


class Then(enum.Enum):
    """What follows a stop that the supervisor ordered."""

    CLOSE = "close"
    REJOIN = "rejoin"
    RETIRE = "retire"
    FAILED_START = "failed start"


class StopMode(enum.Enum):
    """How a supervisor stops (S45). CANCEL may overtake DRAIN, never the other way round."""

    DRAIN = "drain"
    CANCEL = "cancel"


class WalkKind(enum.Enum):
    """Which walk over the children is under way."""

    START = "start"  # forward: start every WAITING child, each after the one before it reported
    GATHER = "gather"  # backward: stop the members of a group restart
    QUENCH = "quench"  # backward, never waits: end every backoff wait at once (S33)
    STOP = "stop"  # backward: stop every live child, each after the one behind it ended (S46)


@attrs.frozen
class Walk:
    """A walk, and the id and position of the child it waits at; ``at`` is None before its first wait."""

    kind: WalkKind
    at: str | None = None
    position: int = -1


@attrs.frozen
class Group:
    """One group restart (S21-S24): members have position >= ``first``; the leader waits out its backoff."""

    leader: str | None
    first: int
    wake_at: float
    gathered: bool = False
    awake: bool = False


@attrs.frozen
class Exhausted:
    """A budget was exceeded: ``owner`` names the supervisor or the child it belongs to (S36, S60)."""

    owner: str
    max_restarts: int
    period_s: float
    history: tuple[EndRecord, ...]


@attrs.frozen
class StartFailure:
    """The first start of a ``start_failure="fail"`` child failed (S9)."""

    record: EndRecord


@attrs.frozen
class FatalEnd:
    """A child ended with a leaf that is no Exception (S17)."""

    record: EndRecord


@attrs.frozen
class OwnError:
    """A child's own error while the supervisor stopped (S14); ``mode`` at that moment."""

    record: EndRecord
    mode: StopMode


@attrs.frozen
class Outlived:
    """A child outlived its stop deadline (S50)."""

    child: str
    generation: int
    reports: int


Cause: TypeAlias = Exhausted | StartFailure | FatalEnd | OwnError | Outlived


@attrs.frozen
class Head:
    """The supervisor itself. Nothing in it grows with the number of children."""

    spec: SupervisorSpec
    path: str
    stop: StopMode | None = None
    stop_reason: str | None = None
    bring_up: bool = True
    walk: Walk | None = None
    group: Group | None = None
    window: Window = NO_ENDS
    causes: tuple[Cause, ...] = ()
    significant: int = 0
    significant_open: int = 0
    significant_running: int = 0
    next_position: int = 0
    closed: bool = False

    @property
    def ready(self) -> bool:
        """S12: every significant child RUNNING; if there are none, bring-up over. Never while stopping."""
        if self.stop is not None:
            return False
        if self.significant:
            return self.significant_running == self.significant
        return not self.bring_up


@attrs.frozen
class Child:
    """One child.

    ``timer_at`` is its only timer: start deadline, wake-up, drain deadline, stop deadline or STUCK interval.
    """

    spec: ChildSpec
    position: int
    state: ChildState = ChildState.WAITING
    since: float = 0.0
    generation: int = 0
    ever_ran: bool = False
    timer_at: float | None = None
    delay_s: float | None = None
    cancel_reason: str | None = None
    then: Then | None = None
    stuck: int = 0
    counters: Counters = NO_FAILURES
    window: Window = NO_ENDS
    last_end: End | None = None
    start_tickets: tuple[int, ...] = ()
    stop_tickets: tuple[int, ...] = ()

    @property
    def live(self) -> bool:
        """True while a generation of this child exists."""
        return self.state in LIVE
