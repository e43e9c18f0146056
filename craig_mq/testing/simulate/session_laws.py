"""Laws of sessions: no overlap, the backoff law, an end for everything, nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from craig_mq.core.config import SubscriptionOptions
from craig_mq.core.session_end import SessionEnd
from craig_mq.observe.events import BackoffChanged, SessionDown, SessionUp
from craig_mq.testing.simulate.evidence import Evidence, Life
from craig_mq.testing.simulate.notes import Dialled
from craig_mq.testing.simulate.stories import Story
from craig_mq.transport.memory.trace import Noted

MIN_DELAY_S = 0.05
_TOLERANCE_S = 1e-6
_HEARD = (SessionUp, SessionDown, BackoffChanged)


def no_overlap(evidence: Evidence, _: dict[int, Story]) -> Iterator[str]:
    """A session's connections, and the handlers of its predecessor, are gone before it dials (S2 to S4)."""
    for record in evidence.trace:
        if isinstance(record, Noted) and isinstance(record.what, Dialled):
            dialled = record.what
            arm = dialled.role.removesuffix(" publishing")
            if dialled.role in dialled.open_roles:
                yield f"replica {dialled.replica} dials {dialled.role} twice at {record.at:g} s"
            if dialled.role == arm and f"{arm} publishing" in dialled.open_roles:
                yield f"replica {dialled.replica} dials {arm} while it still publishes, at {record.at:g} s"
            if dialled.role == "main" and dialled.handling:
                yield f"replica {dialled.replica}: {dialled.handling} handlers outlive their session"


@attrs.define(slots=True)
class _Law:
    """The backoff of one arm, as ADR-059 and S27/S28 have it, independent of the supervisor's own."""

    options: SubscriptionOptions
    settlements: int = 0
    failures: int = 0
    up_at: float | None = None
    down_at: float = 0.0

    def after(self, end: str, at: float) -> float:
        """Return the delay that must follow this end."""
        stable = self.options.stable_after.total_seconds()
        settlement = end == SessionEnd.SETTLEMENT_FAILED.name
        established = self.up_at is not None
        lasted = self.up_at is not None and at - self.up_at >= stable
        if settlement:
            self.settlements += 1
        elif established:
            self.settlements = 0
        if lasted:
            self.failures = 0
        elif not (settlement and established):
            self.failures += 1
        self.up_at = None
        self.down_at = at
        return max(self._law(self.settlements), self._law(self.failures), MIN_DELAY_S)

    def _law(self, count: int) -> float:
        base, cap = self.options.backoff_base.total_seconds(), self.options.backoff_cap.total_seconds()
        return 0.0 if count == 0 else min(base * 2.0 ** (count - 1), cap)


def backoff(evidence: Evidence, _: dict[int, Story]) -> Iterator[str]:
    """Between sessions lies the delay of the law: settlement failures double it, other ends reset that."""
    for life in evidence.lives:
        for arm in ("main", "parking"):
            yield from _backoff_of(life, arm, evidence.scenario.replicas[life.replica].options)


def _backoff_of(life: Life, arm: str, options: SubscriptionOptions) -> Iterator[str]:
    law = _Law(options)
    expected: float | None = None
    for at, event in life.events:
        if not isinstance(event, _HEARD) or event.arm != arm:
            continue
        match event:
            case SessionUp():
                law.up_at = at
                if expected is not None and at < law.down_at + expected - _TOLERANCE_S:
                    yield f"replica {life.replica}, {arm}: up at {at:g} s, {expected:g} s were due"
            case SessionDown(end=end):
                expected = law.after(end, at)
            case BackoffChanged(seconds=seconds):
                if seconds > 0 and (expected is None or abs(seconds - expected) > _TOLERANCE_S):
                    yield f"replica {life.replica}, {arm}, {at:g} s: waits {seconds:g} s, not {expected} s"


def progress(evidence: Evidence, _: dict[int, Story]) -> Iterator[str]:
    """Once faults stop, every letter reaches the ledger or quarantine, and a shutdown ends everything."""
    if evidence.unsettled:
        yield "; ".join(evidence.unsettled)
    for life in evidence.lives:
        if life.crash is not None:
            yield f"replica {life.replica} crashed: {life.crash}"


def nothing_left_behind(evidence: Evidence, _: dict[int, Story]) -> Iterator[str]:
    """No task, connection or open block is left after the end."""
    yield from evidence.left_behind
