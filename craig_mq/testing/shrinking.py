"""From a fault plan that makes something fail to a smaller one that still does."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from craig_mq.transport.memory import Fault, FaultPlan


def shrink(plan: FaultPlan, fails: Callable[[FaultPlan], bool]) -> FaultPlan:
    """Return a plan that still ``fails`` and from which no single fault can be taken (delta debugging).

    ``fails`` runs the case under a plan and tells whether it went wrong; it is called with smaller and
    smaller plans, never with one it has seen. Pin a plan of chances first (``MemoryBroker.pinned_faults``):
    then what is left says exactly which operations must meet which faults. Raises ValueError if the
    given plan does not fail.
    """
    if not fails(plan):
        raise ValueError("the plan does not fail as it is")
    seen = {plan.faults}
    chunk = max(1, len(plan.faults) // 2)
    while True:
        smaller = _first_failing(plan, chunk, fails, seen)
        if smaller is not None:
            plan = smaller
            chunk = min(chunk, max(1, len(plan.faults)))
        elif chunk == 1:
            return plan
        else:
            chunk = max(1, chunk // 2)


def _first_failing(
    plan: FaultPlan,
    chunk: int,
    fails: Callable[[FaultPlan], bool],
    seen: set[tuple[Fault, ...]],
) -> FaultPlan | None:
    """Try the plan without each run of ``chunk`` faults."""
    for start in range(0, len(plan.faults), chunk):
        faults = plan.faults[:start] + plan.faults[start + chunk :]
        if faults in seen:
            continue
        seen.add(faults)
        candidate = attrs.evolve(plan, faults=faults)
        if fails(candidate):
            return candidate
    return None
