"""Specs: frozen, validated data. A combination that contradicts itself is refused here (S38, S58)."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from supervisors.backoff import Backoff
from supervisors.errors import SpecError
from supervisors.exits import EndClass

if TYPE_CHECKING:
    from supervisors.context import ChildContext

Body: TypeAlias = "Callable[[ChildContext], Awaitable[object]]"
StartFailure: TypeAlias = Literal["fail", "retry"]
LastRung: TypeAlias = Literal["wait", "abort"]
AutoShutdown: TypeAlias = Literal["never", "any", "all"]


class RestartType(enum.Enum):
    """After which ends a child is restarted (S18)."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class Strategy(enum.Enum):
    """Whom an end concerns beside the child that ended (S20-S22)."""

    ONE_FOR_ONE = "one_for_one"
    REST_FOR_ONE = "rest_for_one"
    ONE_FOR_ALL = "one_for_all"


DEFAULT_BACKOFF = Backoff()

RESTARTABLE_ENDS: frozenset[EndClass] = frozenset(
    {EndClass.SETTLEMENT_FAILED, EndClass.FAILED, EndClass.DRAINED, EndClass.COMPLETED}
)


@attrs.frozen
class ChildSpec:
    """One child. Times in seconds; None means no limit.

    ``run`` is called once per generation with a ``ChildContext``. It calls ``ctx.started()`` when it is
    ready, and ends by returning None, ``SettlementFailed(detail)`` or ``Failed(detail)``, or by raising.
    ``start_failure`` speaks of the *first* start during bring-up; restarts always retry (S9).
    ``max_restarts``/``period_s`` is a budget of its own, beside the supervisor's (S60).
    ``on_stuck`` is the last rung past ``stop_timeout_s``, taken every ``stuck_interval_s`` (S50).
    ``significant`` feeds readiness (S12) and ``auto_shutdown`` (S58).
    """

    id: str
    run: Body = attrs.field(repr=False)
    restart: RestartType = RestartType.PERMANENT
    backoff: Backoff = DEFAULT_BACKOFF
    start_timeout_s: float | None = None
    drain_timeout_s: float = 30.0
    stop_timeout_s: float = 5.0
    start_failure: StartFailure = "fail"
    significant: bool = False
    max_restarts: int | None = None
    period_s: float = 60.0
    on_stuck: LastRung = "wait"
    stuck_interval_s: float = 5.0

    def __attrs_post_init__(self) -> None:
        _require(bool(self.id) and "/" not in self.id, "id", self.id, "must be non-empty, without '/'")
        limit = self.start_timeout_s
        _require(limit is None or limit > 0, "start_timeout_s", limit, "must be None or > 0")
        _require(self.drain_timeout_s >= 0, "drain_timeout_s", self.drain_timeout_s, "must be >= 0")
        _require(self.stop_timeout_s >= 0, "stop_timeout_s", self.stop_timeout_s, "must be >= 0")
        _require(self.stuck_interval_s > 0, "stuck_interval_s", self.stuck_interval_s, "must be > 0")
        _require_budget(self.max_restarts, self.period_s)
        if self.max_restarts is not None:
            _require_reachable(self.max_restarts, self.period_s, (self,))


@attrs.frozen
class SupervisorSpec:
    """A supervisor: children in declaration order, one strategy, one budget.

    More than ``max_restarts`` counted ends within ``period_s`` seconds end it (S36); None never gives up.
    ``counted`` is the set of end classes that use the budget. ``auto_shutdown`` says what the end of a
    significant child does (S58). ``seed`` feeds jitter (S26).
    """

    name: str
    children: tuple[ChildSpec, ...] = ()
    strategy: Strategy = Strategy.ONE_FOR_ONE
    max_restarts: int | None = 3
    period_s: float = 10.0
    counted: frozenset[EndClass] = RESTARTABLE_ENDS
    auto_shutdown: AutoShutdown = "never"
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        _require(
            bool(self.name) and "/" not in self.name, "name", self.name, "must be non-empty, without '/'"
        )
        _require_budget(self.max_restarts, self.period_s)
        uncountable = self.counted - RESTARTABLE_ENDS
        _require(not uncountable, "counted", self.counted, "fatal and cancelled ends are never restarted")
        ids = [child.id for child in self.children]
        _require(len(ids) == len(set(ids)), "children", ids, "ids must differ")
        for child in self.children:
            check_child(self, child)
        if self.max_restarts is not None and self.children:
            _require_reachable(self.max_restarts, self.period_s, self.children)


def check_child(spec: SupervisorSpec, child: ChildSpec) -> None:
    """Refuse a child that contradicts its supervisor (S58): a permanent child never ends for good."""
    _require(
        spec.auto_shutdown == "never" or not child.significant or child.restart is not RestartType.PERMANENT,
        "significant",
        child.id,
        f"a permanent child cannot trigger auto_shutdown={spec.auto_shutdown!r}",
    )


def _require(holds: bool, field: str, value: object, allowed: str) -> None:
    if not holds:
        raise SpecError(field, value, allowed)


def _require_budget(max_restarts: int | None, period_s: float) -> None:
    _require(max_restarts is None or max_restarts >= 0, "max_restarts", max_restarts, "must be None or >= 0")
    _require(period_s > 0, "period_s", period_s, "must be > 0")


def _require_reachable(max_restarts: int, period_s: float, children: tuple[ChildSpec, ...]) -> None:
    """S38: a budget that every child's backoff outlasts would never be reached."""
    quickest = min(_shortest_run(child.backoff, max_restarts, period_s) for child in children)
    _require(
        quickest <= period_s,
        "max_restarts",
        max_restarts,
        f"unreachable: {max_restarts} backoffs last at least {quickest:g} s, the period is {period_s:g} s",
    )


def _shortest_run(backoff: Backoff, restarts: int, enough: float) -> float:
    total = 0.0
    for count in range(1, restarts + 1):
        total += max(backoff.law(count), backoff.min_delay_s)
        if total > enough:
            break
    return total
