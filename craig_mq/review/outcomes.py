"""What a finished run comes to, in numbers and in one sentence per snapshot."""

from typing import TypedDict

from craig_mq.review.events import Drained, Inspected, Message, Reason, Redriven
from craig_mq.review.model import Run
from craig_mq.review.snapshots import MessageState, Snapshot, Status, state_after


class FirstPass(TypedDict):
    """Counts at the drain, before the operator acts."""

    effects_total: int
    acked: int
    quarantined: int


class Outcome(TypedDict):
    """A run's end: counts, the same per message, and the times (modeled seconds) of its three marks."""

    acked: int
    quarantined: int
    expired: int
    effects_total: int
    effects: dict[Message, int]
    dedup_hits: dict[Message, int]
    status: dict[Message, Status]
    reason: dict[Message, Reason | None]
    key: dict[Message, str]
    cycle: dict[Message, int]
    cycle_receives: dict[Message, int]
    total_receives: dict[Message, int]
    drained_at: int
    inspected_at: int
    end_at: int
    redrives: int
    transitions: int
    first_pass: FirstPass


def outcome(run: Run) -> Outcome:
    """Sum up a run; every number is read off its recorded transitions."""
    drained = next(i for i, event in enumerate(run.events) if isinstance(event, Drained))
    inspected = next(event for event in run.events if isinstance(event, Inspected))
    first, last = state_after(run.events[: drained + 1]), state_after(run.events)
    return Outcome(
        acked=last.count("acked"),
        quarantined=last.count("quarantined"),
        expired=last.count("expired"),
        effects_total=last.effects_total,
        effects={message.name: message.effects for message in last.messages},
        dedup_hits={message.name: message.dedup_hits for message in last.messages},
        status={message.name: message.status for message in last.messages},
        reason={message.name: message.reason for message in last.messages},
        key={message.name: message.key for message in last.messages},
        cycle={message.name: message.cycle for message in last.messages},
        cycle_receives={message.name: message.cycle_receives for message in last.messages},
        total_receives={message.name: message.total_receives for message in last.messages},
        drained_at=run.events[drained].at,
        inspected_at=inspected.at,
        end_at=last.at,
        redrives=sum(isinstance(event, Redriven) for event in run.events),
        transitions=len(run.events),
        first_pass=FirstPass(
            effects_total=first.effects_total,
            acked=first.count("acked"),
            quarantined=first.count("quarantined"),
        ),
    )


def caption(run: Run, index: int) -> str:
    """Return the one sentence for snapshot `index`; raises IndexError outside 0..len(run.events)."""
    if not 0 <= index < len(run.snapshots):
        raise IndexError(f"snapshot {index} of a run with snapshots 0 to {len(run.events)}")
    return caption_of(run.snapshots[index], len(run.events))


def caption_of(snapshot: Snapshot, transitions: int) -> str:
    """Return the sentence for one snapshot of a run with that many transitions."""
    effects = ", ".join(f"{message.name} {message.effects}" for message in snapshot.messages)
    return (
        f"Step {snapshot.index} of {transitions}, modeled time {snapshot.at} s: "
        f"{snapshot.count('acked')} acknowledged, {snapshot.count('quarantined')} quarantined, "
        f"{snapshot.count('expired')} expired, {snapshot.count('ready', 'waiting')} pending; "
        f"{counted(snapshot.effects_total, 'effect')} ({effects}); "
        f"{counted(_hits(snapshot.messages), 'deduplication hit')}."
    )


def counted(number: int, noun: str) -> str:
    """Return `1 effect`, `2 effects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _hits(messages: tuple[MessageState, ...]) -> int:
    return sum(message.dedup_hits for message in messages)
