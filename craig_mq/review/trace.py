"""Transitions in words: one line each, the same on the terminal, in the page and in the docs."""

from collections.abc import Iterator
from typing import assert_never

from craig_mq.review.events import (
    Completed,
    Delivered,
    Drained,
    Event,
    Expired,
    Inspected,
    Redriven,
    Repaired,
)
from craig_mq.review.model import Run

_DONE = {"none": "no effect", "effect": "effect committed", "hit": "stored result returned"}


def trace(run: Run) -> Iterator[str]:
    """Yield one line per transition, modeled time first."""
    for event in run.events:
        yield f"t={event.at:3d} {describe(event)}"


def describe(event: Event) -> str:
    """Return what one transition did, without its time."""
    match event:
        case Delivered():
            return _describe_delivery(event)
        case Drained():
            return f"drained quarantined={event.quarantined}"
        case Inspected():
            return f"inspect action={event.action} ages={dict(event.ages)}"
        case Expired():
            return f"expire message={event.message} age={event.age}"
        case Redriven():
            return f"redrive message={event.message} key={event.key}"
        case Repaired() | Completed():
            return event.kind
        case _:
            assert_never(event)


def _describe_delivery(event: Delivered) -> str:
    done = _DONE[event.result] if event.failure is None else f"{_DONE[event.result]}, {event.failure}"
    after = event.status if event.next_at is None else f"retry at {event.next_at}"
    return (
        f"deliver {event.message} cycle {event.cycle} receive {event.cycle_receive} "
        f"(total {event.total_receive}) key {event.key}: {done} -> {after}"
    )
