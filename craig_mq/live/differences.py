"""Every difference between a live run and its model, named, with its figures and its reason.

``named_differences`` says what this run showed. ``unexplained`` is what no name covers: there should be
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from craig_mq.live.comparison import Comparison
from craig_mq.live.handlers import Receive
from craig_mq.live.settings import SHORTEST_PARK_S
from craig_mq.operator.verdict import Verdict
from craig_mq.review.events import MESSAGES
from craig_mq.review.outcomes import counted


@attrs.frozen
class Difference:
    """``seen`` is what this run showed, ``why`` what a real broker does that the fixture leaves out."""

    name: str
    seen: str
    why: str


def named_differences(compared: Comparison) -> tuple[Difference, ...]:
    """Return the differences this run showed, in the order in which a message meets them."""
    return tuple(Difference(name, seen, why) for name, look, why in _KNOWN for seen in look(compared))


def known_differences() -> dict[str, str]:
    """Every name there is, and its reason, whether or not a run showed it."""
    return {name: why for name, _, why in _KNOWN}


def unexplained(compared: Comparison) -> tuple[str, ...]:
    """Return what differs without a name, one sentence each; empty for a run as it should be."""
    found: list[str] = []
    for name, modeled in compared.modeled.items():
        actual = compared.actual[name]
        if modeled != actual:
            found.append(f"{name}: modeled {modeled}, actual {actual}")
        if _course(compared.modeled_receives, name) != _course(compared.live.receives, name):
            found.append(f"{name}: its receives are others than modeled")
        if compared.live.endings[name].copies > 1:
            found.append(f"{name}: {compared.live.endings[name].copies} copies")
    if compared.live.settings.whole_seconds:
        if compared.modeled_times != compared.actual_times:
            found.append(f"modeled {compared.modeled_times}, actual {compared.actual_times}")
        if set(compared.modeled_receives) != set(compared.live.receives):
            found.append("receives at other times than modeled")
    return tuple(found)


def _course(receives: tuple[Receive, ...], name: str) -> list[Receive]:
    return [attrs.evolve(receive, at=0.0) for receive in receives if receive.message == name]


def _parks(compared: Comparison) -> Iterator[str]:
    parked = sum(ending.statistics.parked for ending in compared.live.endings.values())
    returned = sum(ending.statistics.returned for ending in compared.live.endings.values())
    if parked:
        hops = f"{counted(parked, 'park')} and {counted(returned, 'return')}"
        yield f"{hops}, each a confirmed publish and an ack."


def _shortest_park(compared: Comparison) -> Iterator[str]:
    settings = compared.live.settings
    if compared.live.params.retry_interval * settings.second_s < SHORTEST_PARK_S:
        yield (
            f"The interval of {compared.live.params.retry_interval} modeled s became {SHORTEST_PARK_S:g} s "
            f"on the runtime's clock, {SHORTEST_PARK_S / settings.second_s:.3g} modeled s."
        )


def _budget_of_one(compared: Comparison) -> Iterator[str]:
    if compared.live.params.max_receives == 1:
        yield "A budget of one receive is a PERMANENT failure at the first."


def _lost_session(compared: Comparison) -> Iterator[str]:
    ending = compared.live.endings["uncertain"]
    if ending.acks_lost:
        yield (
            f"{counted(ending.acks_lost, 'lost ack')} of uncertain cost as many connections; "
            f"{counted(ending.statistics.sessions, 'session')} of its two arms were needed in all."
        )


def _written(compared: Comparison) -> Iterator[str]:
    if compared.live.lost_but_written:
        yield (
            f"{counted(compared.live.lost_but_written, 'delivery')} of uncertain counted as acked, "
            "and came again all the same."
        )


def _uncounted(compared: Comparison) -> Iterator[str]:
    lost = [receive for receive in compared.live.receives if receive.failure == "ack-lost"]
    if lost:
        yield f"Receive {compared.live.params.max_receives} of uncertain's cycle was refused by its handler."


def _capture_reason(compared: Comparison) -> Iterator[str]:
    reasons = {held.message: f"{held.row.reason} ({held.row.error_line})" for held in compared.live.held}
    if reasons:
        yield "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) + "."


def _drained(compared: Comparison) -> Iterator[str]:
    drained = [name for name in MESSAGES if compared.live.endings[name].status == "expired"]
    if drained:
        yield f"{', '.join(drained)}: drained to a file on disk, then acked."


def _ticked(compared: Comparison) -> Iterator[str]:
    verdicts = compared.live.verdicts
    ticked = [name for name, verdict in verdicts.items() if verdict == Verdict.MAY_DUPLICATE.value]
    if ticked:
        yield f"The plan said: {', '.join(f'{name} {verdict}' for name, verdict in verdicts.items())}."


def _order(compared: Comparison) -> Iterator[str]:
    modeled = [(receive.message, receive.total_receive) for receive in compared.modeled_receives]
    actual = [(receive.message, receive.total_receive) for receive in compared.live.receives]
    if modeled != actual and sorted(modeled) == sorted(actual):
        moved = sum(one != other for one, other in zip(modeled, actual, strict=True))
        yield f"{moved} of {counted(len(actual), 'receive')} have another place in the order."


def _latency(compared: Comparison) -> Iterator[str]:
    second_s = compared.live.settings.second_s
    late_s = (compared.actual_times.end_at - compared.modeled_times.end_at) * second_s
    if not compared.live.settings.whole_seconds:
        yield f"The run ended {late_s:.1f} s later than modeled; a modeled second lasted {second_s:g} s."


_Look = Callable[[Comparison], Iterator[str]]

_KNOWN: Final[tuple[tuple[str, _Look, str], ...]] = (
    (
        "a wait is a park",
        _parks,
        (
            "The fixture's message waits in its schedule. A broker has no such place: the delivery is "
            "published to the parking queue, confirmed, acked, and published back when it is due, so that a "
            "crash at any step leaves a copy."
        ),
    ),
    (
        "the shortest wait is one second",
        _shortest_park,
        (
            "Parking has a lower bound, so that a failing message cannot go round as fast as the broker "
            "carries it."
        ),
    ),
    (
        "a budget of one parks nothing",
        _budget_of_one,
        (
            "park_cap is at least 1: a message that is parked is received at least twice. A handler that "
            "allows one receive says so with PERMANENT."
        ),
    ),
    (
        "a lost ack ends its session",
        _lost_session,
        (
            "AMQP has no reply to an ack and no way to ask for a delivery again. Nothing but the end of the "
            "channel makes a broker redeliver, so the interval is the supervisor's backoff, and whatever "
            "else the session held comes again too: here each message has a queue of its own."
        ),
    ),
    (
        "written is not received",
        _written,
        (
            "The runtime knows that its ack was written to the connection, not that the broker read it. That "
            "is why an effect needs a key of its own: no settlement can make it exactly once."
        ),
    ),
    (
        "nobody counts lost acks",
        _uncounted,
        (
            "An ack fails by the channel's state, not by the message, so the runtime never quarantines for "
            "it: it goes on, loudly and with backoff (ADR-059 §settlement). The fixture's budget covers such "
            "receives too; here the handler closes it with PERMANENT, after its effect."
        ),
    ),
    (
        "the reason is the rule that struck",
        _capture_reason,
        (
            "A capture's reason says which rule sent it to quarantine; the fixture's reason is its "
            "last_error. The table above shows the latter."
        ),
    ),
    (
        "expiry is an operator's drain",
        _drained,
        (
            "A quarantine queue has no TTL: a broker that deletes by age deletes evidence. Age makes a "
            "message due for a drain, which keeps every byte in a file."
        ),
    ),
    (
        "a duplicate needs a tick",
        _ticked,
        (
            "The fixture redrives what the action names. The operator's plan asks the ledger first and says "
            "what would happen; what may duplicate is sent only because it was ticked."
        ),
    ),
    (
        "no order within an instant",
        _order,
        (
            "The fixture breaks ties in a fixed order. Queues, sessions and connections that are ready at "
            "the same time have none."
        ),
    ),
    (
        "time passes",
        _latency,
        (
            "Publishing, confirming, scanning and reconnecting take time, and each part adds to the next "
            "one's due time. The fixture's steps take none, which is why its exact ties do not exist on a "
            "real broker."
        ),
    ),
)
