"""The trace, told letter by letter: what each checker of messages reads."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import TypeAlias

import attrs

from craig_mq.testing.simulate.evidence import Evidence
from craig_mq.testing.simulate.letters import letter_in
from craig_mq.testing.simulate.notes import Committed, Invoked, QueueDeleted, Redriven, Returned
from craig_mq.testing.simulate.scenario import Letter
from craig_mq.transport.memory.trace import (
    MessageAcked,
    MessageDelivered,
    MessageDropped,
    MessagePublished,
    MessageRequeued,
    Noted,
    OutcomeTold,
)

Fact: TypeAlias = (
    MessagePublished
    | MessageDelivered
    | MessageAcked
    | MessageRequeued
    | MessageDropped
    | OutcomeTold
    | Invoked
    | Committed
    | Returned
    | Redriven
)

# Each is looked up once per record: a union would be built anew each time.
_MOVES = (MessageDelivered, MessageAcked, MessageRequeued, MessageDropped)
_NOTES = (Invoked, Committed, Returned, Redriven)
_GONE = (MessageAcked, MessageDropped)

_PARK_COUNT = re.compile(rb'"park_count":(\d+)')
_CAPTURE = b'"craig_capture"'


@attrs.define(slots=True)
class Story:
    """Everything that happened to one letter, in order."""

    number: int
    letter: Letter
    facts: list[Fact] = attrs.Factory(list[Fact])
    committed: int = 0
    destroyed: bool = False


def stories_of(evidence: Evidence) -> dict[int, Story]:
    """Sort the trace by letter; *destroyed* is one of which an operator deleted a copy with its queue."""
    stories = {
        number: Story(number, letter) for number, letter in enumerate(evidence.scenario.letters, start=1)
    }
    told = _Telling(stories)
    for record in evidence.trace:
        told.tell(record)
    return stories


class _Telling:
    """Sorts one trace; knows at each moment which copies are alive."""

    def __init__(self, stories: dict[int, Story]) -> None:
        self._stories = stories
        self._of_serial: dict[int, Story] = {}
        self._live: defaultdict[tuple[int, str], int] = defaultdict(int)

    def tell(self, record: object) -> None:
        """Add one record to the story it belongs to."""
        if isinstance(record, Noted):
            self._noted(record.what)
        elif isinstance(record, _MOVES):
            self._moved(record)
        elif isinstance(record, MessagePublished):
            self._published(record)
        elif isinstance(record, OutcomeTold):
            number = letter_in(record.publication.body)
            if number is not None:
                self._stories[number].facts.append(record)

    def _noted(self, what: object) -> None:
        if isinstance(what, _NOTES):
            story = self._stories[what.letter]
            story.facts.append(what)
            story.committed += isinstance(what, Committed)
        elif isinstance(what, QueueDeleted):
            for (serial, where), count in self._live.items():
                if where == what.queue and count > 0 and serial in self._of_serial:
                    self._of_serial[serial].destroyed = True

    def _published(self, record: MessagePublished) -> None:
        number = letter_in(record.publication.body)
        if number is not None:
            story = self._of_serial[record.serial] = self._stories[number]
            story.facts.append(record)
            for queue in record.queues:
                self._live[record.serial, queue] += 1

    def _moved(self, record: MessageDelivered | MessageAcked | MessageRequeued | MessageDropped) -> None:
        if isinstance(record, _GONE):
            self._live[record.serial, record.queue] -= 1
        elif isinstance(record, MessageRequeued) and record.connection == 0:
            self._live[record.serial, record.queue] += 1
        story = self._of_serial.get(record.serial)
        if story is not None:
            story.facts.append(record)


@lru_cache(512)
def park_count_of(body: bytes) -> int:
    """Return the ``park_count`` of a capture's body, 0 for anything else."""
    at = body.find(_CAPTURE, 0, 400)
    found = None if at < 0 else _PARK_COUNT.search(body, at)
    return 0 if found is None else int(found[1])


def is_capture(body: bytes) -> bool:
    """Whether a body is a capture."""
    return body.find(_CAPTURE, 0, 400) >= 0
