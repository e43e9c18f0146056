"""What the four messages' handlers do, and the log of every receive.

The budget of a cycle is kept where the runtime keeps it: an outage and a schema failure park until
``park_cap`` quarantines. A budget of one cannot park, and a lost ack is nothing the runtime counts, so
for these two the handler closes the budget itself, with PERMANENT.
"""

# flake8: noqa: ASYNC910 - a receive is one atomic step, as the fixture has it
from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import attrs

from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.live.ack_loss import AckLoss
from craig_mq.live.effects import EffectLedger
from craig_mq.review.events import MESSAGES, Message, Reason, Result
from craig_mq.review.params import Params

EVENT_TYPE: Final = "review."
_OUTAGE_RECEIVES: Final = 2


class HandlerFault(Exception):
    """The failure a message was made for; its text is the fixture's reason."""


@attrs.frozen
class Receive:
    """One delivery that reached a handler, at modeled second ``at``."""

    at: float
    message: Message
    key: str
    cycle: int
    cycle_receive: int
    total_receive: int
    result: Result
    failure: Reason | None


@attrs.define
class Course:
    """One message on its way. ``ack_lost`` says that its last receive's ack never reached the broker."""

    cycle: int = 1
    cycle_receives: int = 0
    total_receives: int = 0
    ack_lost: bool = False
    acks_lost: int = 0
    tokens: list[str] = attrs.field(factory=list[str])

    def redriven(self) -> None:
        """Begin the second cycle with a fresh budget."""
        self.cycle, self.cycle_receives = 2, 0


class Handlers:
    """One handler for all four queues. ``repaired`` heals the poison handler and the ack channel."""

    def __init__(self, params: Params, ledger: EffectLedger, now: Callable[[], float], acks: AckLoss) -> None:
        self._budget = params.max_receives
        self._ledger = ledger
        self._now = now
        self._acks = acks
        self.repaired = False
        self.receives: list[Receive] = []
        self.courses: dict[Message, Course] = {name: Course() for name in MESSAGES}

    async def __call__(self, letter: DeadLetter) -> None:
        """Take one receive."""
        name = cast("Message", letter.envelope.event_type.removeprefix(EVENT_TYPE))
        token = letter.token or ""
        course = self._received(name, token)
        result: Result = "none"
        failure = self._failure_before_effect(name, course)
        if failure is None:
            result = self._ledger.apply(name, token)
            failure = "ack-lost" if name == "uncertain" and not self.repaired else None
        key = f"{name}/{course.tokens.index(token) + 1}"
        counts = (course.cycle, course.cycle_receives, course.total_receives)
        self.receives.append(Receive(self._now(), name, key, *counts, result, failure))
        if failure is not None:
            self._fail(course, failure)

    def _received(self, name: Message, token: str) -> Course:
        course = self.courses[name]
        course.cycle_receives += 1
        course.total_receives += 1
        course.ack_lost = False
        if token not in course.tokens:
            course.tokens.append(token)
        return course

    def _failure_before_effect(self, name: Message, course: Course) -> Reason | None:
        if name == "poison" and not self.repaired:
            return "schema"
        if name == "transient" and course.total_receives <= _OUTAGE_RECEIVES:
            return "outage"
        return None

    def _fail(self, course: Course, failure: Reason) -> None:
        """Fail as the budget allows. Returns only where the delivery's ack goes out, and is lost."""
        if failure == "ack-lost" and course.cycle_receives < self._budget:
            course.ack_lost = True
            course.acks_lost += 1
            self._acks.arm()
            return
        own_budget = failure == "ack-lost" or self._budget == 1
        fault = HandlerFault(failure)
        raise DlqError(
            Disposition.PERMANENT if own_budget else Disposition.TRANSIENT_PARK, source=fault
        ) from fault
