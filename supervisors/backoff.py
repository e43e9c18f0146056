"""Restart delays as pure values: two counters, two laws, one optional jitter (S26-S32).

The delay before the next generation is ``max(law(k), law(f), min_delay)``. ``k`` counts consecutive
settlement failures, ``f`` counts failed starts and early ends. Only the way a generation *ended* moves them
(S29).
"""

from __future__ import annotations

import hashlib
from typing import Final

import attrs

from supervisors.errors import SpecError
from supervisors.exits import EndClass

_MAX_DOUBLINGS = 1_023  # 2.0 ** 1024 overflows a float


@attrs.frozen
class Backoff:
    """The laws of one child. Times in seconds, on Trio's clock.

    ``law(0) = 0``, ``law(n) = min(base_s * 2**(n-1), cap_s)``. ``min_delay_s`` > 0 is waited before every
    restart (S32). ``stable_after_s`` of RUNNING forgives the failed starts (S28). ``jitter`` 0 … ½ shortens a
    delay, never lengthens it (S30). ``settlement_reset_after_s`` of RUNNING forgives settlement failures too;
    by default they never age (S31).
    """

    base_s: float = 1.0
    cap_s: float = 30.0
    min_delay_s: float = 0.05
    stable_after_s: float = 10.0
    jitter: float = 0.0
    settlement_reset_after_s: float | None = None

    def __attrs_post_init__(self) -> None:
        _require(self.base_s > 0, "base_s", self.base_s, "must be > 0")
        _require(self.cap_s >= self.base_s, "cap_s", self.cap_s, "must be >= base_s")
        _require(0 < self.min_delay_s <= self.cap_s, "min_delay_s", self.min_delay_s, "must be in (0, cap_s]")
        _require(self.stable_after_s >= 0, "stable_after_s", self.stable_after_s, "must be >= 0")
        _require(0 <= self.jitter <= 0.5, "jitter", self.jitter, "must be in [0, 0.5]")  # noqa: PLR2004 - S30
        reset = self.settlement_reset_after_s
        _require(reset is None or reset > 0, "settlement_reset_after_s", reset, "must be None or > 0")

    def law(self, count: int) -> float:
        """Seconds after ``count`` consecutive ends of one kind."""
        if count == 0:
            return 0.0
        return min(self.base_s * 2.0 ** min(count - 1, _MAX_DOUBLINGS), self.cap_s)

    def delay(self, counters: Counters, u: float) -> float:
        """Seconds before the next generation; ``u`` in [0, 1) is this wait's share of chance (S30)."""
        longest = max(self.law(counters.settlement), self.law(counters.start))
        return max(longest * (1.0 - self.jitter * u), self.min_delay_s)


@attrs.frozen
class Counters:
    """What a child's past ends left behind: ``settlement`` is k, ``start`` is f (S27)."""

    settlement: int = 0
    start: int = 0


NO_FAILURES: Final = Counters()


def after_end(backoff: Backoff, counters: Counters, end: EndClass, ran_s: float | None) -> Counters:
    """The counters after one end; ``ran_s`` is the time in RUNNING, None for a failed start (S28, S31)."""
    settlement, start = counters.settlement, counters.start
    forgive = backoff.settlement_reset_after_s
    if ran_s is not None and forgive is not None and ran_s >= forgive:
        settlement = 0
    if ran_s is not None and ran_s >= backoff.stable_after_s:
        start = 0
    failed_settlement = end is EndClass.SETTLEMENT_FAILED
    if failed_settlement:
        settlement += 1
    elif ran_s is not None:
        settlement = 0
    if ran_s is None or (not failed_settlement and ran_s < backoff.stable_after_s):
        start += 1
    return Counters(settlement, start)


def chance(seed: int, path: str, generation: int) -> float:
    """U in [0, 1): a hash of (seed, child path, generation), the only source of chance (S26)."""
    digest = hashlib.sha256(f"{seed}\0{path}\0{generation}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2.0**64


def _require(holds: bool, field: str, value: object, allowed: str) -> None:
    if not holds:
        raise SpecError(field, value, allowed)
