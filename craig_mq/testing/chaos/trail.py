"""What happened to each message, as the campaign saw it: the material to explain its repetitions from."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs

from craig_mq.core.dead_letter import DeadLetter
from craig_mq.observe.events import Event, Parked, ParkedReturned, Quarantined, SessionDown

Reason: TypeAlias = Literal[
    "unknown outcome of the producer's publish",
    "unknown outcome or unfinished work",
    "dealt with but not acked",
    "ack not yet on the broker's disk",
    "second copy in parking",
    "unexplained",
]
UNEXPLAINED: Final = "unexplained"


@attrs.define(frozen=True, slots=True)
class Invocation:
    """The first attempt of one receipt: when (Unix time), after how many parks, marked redelivered or not."""

    at: float
    parks: int
    redelivered: bool


@attrs.define(slots=True)
class Trail:
    """Observed by the handler and by the subscription's events; ``outages`` are those of the stage.

    Every receipt after a message's first at the same park count is a repetition. A redelivery is explained by
    what lies between it and the receipt before of the same copy: a session that ended, a broker that went
    down. Another copy is explained by a second publish of the producer's, by two copies in parking
    (themselves from a repetition), or by a return made twice, around an end of the parking session.
    """

    outages: list[float] = attrs.Factory(list[float])
    _ended_at: list[float] = attrs.Factory(list[float])
    _parking_ended_at: list[float] = attrs.Factory(list[float])
    _invocations: dict[int, list[Invocation]] = attrs.Factory(
        lambda: defaultdict[int, list[Invocation]](list)
    )
    _dealt_with: dict[int, list[float]] = attrs.Factory(lambda: defaultdict[int, list[float]](list))
    ends: Counter[str] = attrs.Factory(Counter[str])
    now: Callable[[], float] = time.time

    def invoked(self, number: int, letter: DeadLetter) -> None:
        """Note an invocation of the handler."""
        if letter.attempt == 1:
            seen = Invocation(self.now(), letter.park_count, letter.redelivered)
            self._invocations[number].append(seen)

    def dealt_with(self, number: int) -> None:
        """Note evidence for an ack: recorded, or confirmed in parking, in quarantine, or returned."""
        self._dealt_with[number].append(self.now())

    def observe(self, event: Event) -> None:
        """Hear an event of the subscription."""
        if isinstance(event, SessionDown):
            now = self.now()
            self._ended_at.append(now)
            if event.arm == "parking":
                self._parking_ended_at.append(now)
            self.ends[f"{event.arm}: {event.end}"] += 1
        elif isinstance(event, Parked | Quarantined | ParkedReturned):
            self.dealt_with(uuid.UUID(event.envelope_id).int & (1 << 60) - 1)

    def receipts(self, number: int) -> int:
        """Return how often a message began to be handled."""
        return len(self._invocations[number])

    @property
    def invocations(self) -> int:
        """How many receipts were handled in all."""
        return sum(len(made) for made in self._invocations.values())

    def explain(self, repeated: Counter[int]) -> dict[int, list[Reason]]:
        """Return the reasons of each message's repetitions; ``repeated`` are the producer's, by number."""
        return {
            number: reasons
            for number in tuple(self._invocations)
            if (reasons := self._explain(number, repeated[number]))
        }

    def tell(self, number: int) -> str:
        """Return what is known of one message, for a person to read; times are Unix times."""
        receipts = ", ".join(
            f"{one.at:.3f} after {one.parks} parks{' redelivered' * one.redelivered}"
            for one in self._invocations[number]
        )
        evidence = ", ".join(f"{at:.3f}" for at in self._dealt_with[number])
        return f"{number}: received {receipts}; dealt with {evidence}"

    def _explain(self, number: int, producer_repeats: int) -> list[Reason]:
        made = self._invocations[number]
        reasons: list[Reason] = []
        copies = 0
        for parks in sorted({one.parks for one in made}):
            first, *others = (one for one in made if one.parks == parks)
            lines = deque([first.at])  # of each copy there is: when it was received last
            found: list[Reason] = []
            for one in others:
                reason = (
                    self._cause(number, lines[0], one.at, self._ended_at) if one.redelivered else UNEXPLAINED
                )
                if reason != UNEXPLAINED:
                    lines.popleft()
                elif copies > 0:
                    copies, reason = copies - 1, "second copy in parking"
                elif parks == 0 and producer_repeats > 0:
                    producer_repeats -= 1
                    reason = "unknown outcome of the producer's publish"
                else:
                    since = self._returned_since(made, one, lines[0])
                    reason = self._cause(number, since, one.at, self._parking_ended_at)
                lines.append(one.at)
                found.append(reason)
            copies = len(found)
            reasons += found
        return reasons

    @staticmethod
    def _returned_since(made: list[Invocation], one: Invocation, before: float) -> float:
        """Return from when on to look for the cause of a second return.

        What came back from parking twice was returned twice, which can be long before either was received.
        """
        earlier = (other.at for other in made if other.parks < one.parks and other.at < before)
        return max(earlier, default=before)

    def _cause(self, number: int, since: float, until: float, ends: list[float]) -> Reason:
        evidence = _between(self._dealt_with[number], since, until)
        if evidence and _between(self.outages, since, until):
            return "ack not yet on the broker's disk"
        if not _between(ends, since, until) and not _between(self.outages, since, until):
            return UNEXPLAINED
        return "dealt with but not acked" if evidence else "unknown outcome or unfinished work"


def _between(moments: list[float], since: float, until: float) -> bool:
    """Tell whether one of the sorted moments lies within."""
    return bisect_right(moments, until) > bisect_right(moments, since)
