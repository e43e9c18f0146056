"""The transitions of a run: a closed union of frozen events that carry all a snapshot is folded from.

Every `at`, `next_at` and `expires_at` is in modeled seconds from the start of the run.
"""

from typing import ClassVar, Final, Literal, get_args

from attrs import fields, frozen

from craig_mq.review.params import Action

Message = Literal["healthy", "transient", "poison", "uncertain"]
Reason = Literal["outage", "schema", "ack-lost"]
Result = Literal["none", "effect", "hit"]
Settlement = Literal["acked", "waiting", "quarantined"]
Phase = Literal["source", "drained", "operator", "redrive", "end"]

MESSAGES: Final[tuple[Message, ...]] = get_args(Message)  # this order breaks every tie


@frozen
class Delivered:
    """One receive of one message, atomic: what it did, why it failed, and where it left the message.

    `result` is `effect` (a ledger row), `hit` (a stored result was returned) or `none` (failed before both).
    `expires_at` is set exactly when a commit wrote a stored result, `next_at` when a retry is scheduled.
    """

    kind: ClassVar = "deliver"
    at: int
    message: Message
    key: str
    cycle: int
    cycle_receive: int
    total_receive: int
    result: Result
    failure: Reason | None
    status: Settlement
    next_at: int | None
    expires_at: int | None

    @property
    def phase(self) -> Phase:
        """The source cycle, or the one redrive cycle."""
        return "source" if self.cycle == 1 else "redrive"


@frozen
class Drained:
    """No source delivery is scheduled any more; `quarantined` messages wait for the operator."""

    kind: ClassVar = "drained"
    phase: ClassVar[Phase] = "drained"
    at: int
    quarantined: int


@frozen
class Inspected:
    """The operator looks: `ages` holds (message, seconds since it entered quarantine) in fixed order."""

    kind: ClassVar = "inspect"
    phase: ClassVar[Phase] = "operator"
    at: int
    action: Action
    ages: tuple[tuple[Message, int], ...]


@frozen
class Expired:
    """A quarantined message was at least as old as the quarantine retention; its effects stay."""

    kind: ClassVar = "expire"
    phase: ClassVar[Phase] = "operator"
    at: int
    message: Message
    age: int


@frozen
class Repaired:
    """The poison handler and the acknowledgement channel work from here on."""

    kind: ClassVar = "repair"
    phase: ClassVar[Phase] = "operator"
    at: int


@frozen
class Redriven:
    """A retained message starts cycle 2 under `key`, with a fresh attempt budget."""

    kind: ClassVar = "redrive"
    phase: ClassVar[Phase] = "operator"
    at: int
    message: Message
    key: str


@frozen
class Completed:
    """Nothing is scheduled and nothing will be: the run is over."""

    kind: ClassVar = "complete"
    phase: ClassVar[Phase] = "end"
    at: int


Event = Delivered | Drained | Inspected | Expired | Repaired | Redriven | Completed


def record(number: int, event: Event) -> dict[str, object]:
    """Return the JSON object of transition `number` (1-based)."""
    values = {name: getattr(event, name) for name in _FIELDS[type(event)]}
    if isinstance(event, Inspected):
        values["ages"] = dict(event.ages)
    return {"n": number, "kind": event.kind, "phase": event.phase, **values}


_FIELDS: Final = {cls: tuple(a.name for a in fields(cls)) for cls in get_args(Event)}
