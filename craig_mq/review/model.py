"""The rules: four messages through retry, quarantine, expiry and one selective redrive.

Pure, in whole modeled seconds. Five phases run one after the other and never interleave: source, drained,
operator, redrive, end. Within a cycle deliveries are taken by (due time, schedule sequence), so an interval
of zero keeps whole rounds in order.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from heapq import heappop, heappush

from attrs import define, frozen

from craig_mq.review.events import (
    MESSAGES,
    Completed,
    Delivered,
    Drained,
    Event,
    Expired,
    Inspected,
    Message,
    Reason,
    Redriven,
    Repaired,
    Result,
    Settlement,
)
from craig_mq.review.params import Params
from craig_mq.review.snapshots import LedgerRow, Snapshot, ledger_of, snapshots_of

_OUTAGE_RECEIVES = 2  # transient's outage covers its first two receives in all; a redrive does not reset it


@frozen
class Run:
    """One finished experiment. Snapshot i is the state after i transitions; snapshot 0 is the start."""

    params: Params
    events: tuple[Event, ...]

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Every state in order, `len(events) + 1` of them."""
        return snapshots_of(self.events)

    @cached_property
    def ledger(self) -> tuple[LedgerRow, ...]:
        """The committed effects, append-only."""
        return ledger_of(self.events)


def simulate(params: Params) -> Run:
    """Run the experiment to its end; the same parameters always give the same run."""
    return Run(params, tuple(_Experiment(params).play()))


@define
class _Course:
    """Where one message stands while the experiment plays."""

    name: Message
    key: str
    cycle: int = 1
    cycle_receives: int = 0
    total_receives: int = 0
    quarantined_at: int | None = None


class _Experiment:
    def __init__(self, params: Params) -> None:
        self._params = params
        self._courses = [_Course(name, f"{name}/1") for name in MESSAGES]
        self._expiries: dict[str, int] = {}  # the deduplication store: key -> expires_at
        self._repaired = False
        self._now = 0

    def play(self) -> Iterator[Event]:
        yield from self._cycle(self._courses)
        held = [course for course in self._courses if course.quarantined_at is not None]
        yield Drained(self._now, len(held))
        self._now += self._params.operator_wait
        redriven: list[_Course] = []
        for event, course in self._operate(held):
            yield event
            if course is not None:
                redriven.append(course)
        yield from self._cycle(redriven)
        yield Completed(self._now)

    def _cycle(self, courses: Iterable[_Course]) -> Iterator[Event]:
        """Deliver until nothing is scheduled; the first round is due now, in the order given."""
        queue: list[tuple[int, int, _Course]] = []
        for sequence, course in enumerate(courses):
            heappush(queue, (self._now, sequence, course))
        scheduled = len(queue)
        while queue:
            self._now, _, course = heappop(queue)
            delivered = self._deliver(course)
            yield delivered
            if delivered.next_at is not None:
                heappush(queue, (delivered.next_at, scheduled, course))
                scheduled += 1

    def _operate(self, held: list[_Course]) -> Iterator[tuple[Event, _Course | None]]:
        """Inspect, expire, repair, redrive: the operator's one visit, all at the inspection time."""
        now, params = self._now, self._params
        ages = [(course, now - course.quarantined_at) for course in held if course.quarantined_at is not None]
        yield Inspected(now, params.action, tuple((course.name, age) for course, age in ages)), None
        for course, age in ages:
            if age >= params.quarantine_retention:
                yield Expired(now, course.name, age), None
        chosen = [
            course
            for course, age in ages
            if age < params.quarantine_retention and params.action in {"all", course.name}
        ]
        if params.repair and chosen:
            self._repaired = True
            yield Repaired(now), None
        for course in chosen:
            course.cycle, course.cycle_receives, course.quarantined_at = 2, 0, None
            if params.identity == "new":
                course.key = f"{course.name}/2"
            yield Redriven(now, course.name, course.key), course

    def _deliver(self, course: _Course) -> Delivered:
        """One atomic receive."""
        course.cycle_receives += 1
        course.total_receives += 1
        now, expires_at = self._now, None
        result: Result = "none"
        failure = self._failure_before_effect(course)
        if failure is None:
            result, expires_at = self._apply(course.key)
            failure = "ack-lost" if course.name == "uncertain" and not self._repaired else None
        status: Settlement = "acked"
        next_at = None
        if failure is not None and course.cycle_receives < self._params.max_receives:
            status, next_at = "waiting", now + self._params.retry_interval
        elif failure is not None:
            status, course.quarantined_at = "quarantined", now
        return Delivered(
            now,
            course.name,
            course.key,
            course.cycle,
            course.cycle_receives,
            course.total_receives,
            result,
            failure,
            status,
            next_at,
            expires_at,
        )

    def _failure_before_effect(self, course: _Course) -> Reason | None:
        if course.name == "poison" and not self._repaired:
            return "schema"
        if course.name == "transient" and course.total_receives <= _OUTAGE_RECEIVES:
            return "outage"
        return None

    def _apply(self, key: str) -> tuple[Result, int | None]:
        """Return the stored result if one is valid, strictly before its expiry; otherwise commit."""
        if not self._params.dedup:
            return "effect", None
        stored = self._expiries.get(key)
        if stored is not None and self._now < stored:
            return "hit", None
        self._expiries[key] = self._now + self._params.result_retention
        return "effect", self._expiries[key]
