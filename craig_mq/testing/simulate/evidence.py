"""What one run leaves behind for the checkers."""

from __future__ import annotations

import attrs

from craig_mq.observe.events import Event
from craig_mq.testing.simulate.scenario import Lifecycle, Scenario
from craig_mq.transport.memory.faults import Strike
from craig_mq.transport.memory.trace import TraceRecord


@attrs.define(frozen=True, slots=True)
class Struck:
    """A fault that struck, and what it met: ``role`` of a subscription in one part of its ``lifecycle``."""

    strike: Strike
    role: str
    lifecycle: Lifecycle


@attrs.define(frozen=True, slots=True)
class Life:
    """One run of ``subscribe_dlq``: what it reported, with times in seconds since the run's start."""

    replica: int
    events: tuple[tuple[float, Event], ...]
    crash: str | None


@attrs.define(frozen=True, slots=True)
class Evidence:
    """Everything a checker may look at. ``quarantined`` counts, by letter, the captures left at the end."""

    scenario: Scenario
    trace: tuple[TraceRecord, ...]
    lives: tuple[Life, ...]
    struck: tuple[Struck, ...]
    acts_done: tuple[str, ...]
    unsettled: tuple[str, ...]
    quarantined: dict[int, int]
    left_behind: tuple[str, ...]
    seconds: float


@attrs.define(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold, and the words that go with it."""

    invariant: str
    text: str
