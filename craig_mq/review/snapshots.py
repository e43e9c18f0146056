"""States folded from events: what the diagram, the table and the ledger show after each transition."""

from collections.abc import Iterable
from typing import Final, Literal, assert_never

from attrs import define, fields, frozen

from craig_mq.review.events import (
    MESSAGES,
    Completed,
    Delivered,
    Drained,
    Event,
    Expired,
    Inspected,
    Message,
    Phase,
    Reason,
    Redriven,
    Repaired,
)

Status = Literal["ready", "waiting", "quarantined", "acked", "expired"]


@frozen
class LedgerRow:
    """One committed effect: row `n` (1-based) increments the counter by `delta`; nothing ever removes it."""

    n: int
    at: int
    intent: Message
    key: str
    cycle: int
    total_receive: int
    delta: int = 1


@frozen
class MessageState:
    """One message in one snapshot. `reason` says why it is where it is; an acknowledgement clears it."""

    name: Message
    key: str
    status: Status
    reason: Reason | None
    cycle: int
    cycle_receives: int
    total_receives: int
    effects: int
    dedup_hits: int
    next_at: int | None
    quarantined_at: int | None
    redriven: bool


@frozen
class StoredResult:
    """One entry of the deduplication store; `valid` is computed for the snapshot's own time."""

    key: str
    intent: Message
    committed_at: int
    expires_at: int
    valid: bool


@frozen
class Snapshot:
    """The whole state after `index` transitions, at modeled second `at`."""

    index: int
    at: int
    phase: Phase
    repaired: bool
    messages: tuple[MessageState, ...]
    effects_total: int
    store: tuple[StoredResult, ...]

    def count(self, *statuses: Status) -> int:
        """How many messages are in one of `statuses`."""
        return sum(message.status in statuses for message in self.messages)

    def record(self) -> dict[str, object]:
        """Return the snapshot's JSON object."""
        return {
            "index": self.index,
            "at": self.at,
            "phase": self.phase,
            "repaired": self.repaired,
            "messages": [_values(message) for message in self.messages],
            "effects_total": self.effects_total,
            "store": [_values(entry) for entry in self.store],
        }


def _values(state: MessageState | StoredResult) -> dict[str, object]:
    """Return a flat state's fields; several times faster than the general `asdict`."""
    return {name: getattr(state, name) for name in _FIELDS[type(state)]}


_FIELDS: Final = {cls: tuple(one.name for one in fields(cls)) for cls in (MessageState, StoredResult)}


def snapshots_of(events: Iterable[Event]) -> tuple[Snapshot, ...]:
    """Return the start and the state after each event."""
    board = _Board()
    taken = [board.snapshot()]
    for event in events:
        board.advance(event)
        taken.append(board.snapshot())
    return tuple(taken)


def state_after(events: Iterable[Event]) -> Snapshot:
    """Return only the last state: the fold of all of `events`."""
    board = _Board()
    for event in events:
        board.advance(event)
    return board.snapshot()


def ledger_of(events: Iterable[Event]) -> tuple[LedgerRow, ...]:
    """Return the committed effects among `events`."""
    commits = (event for event in events if isinstance(event, Delivered) and event.result == "effect")
    return tuple(
        LedgerRow(n, row.at, row.message, row.key, row.cycle, row.total_receive)
        for n, row in enumerate(commits, start=1)
    )


@define
class _Piece:
    """The mutable twin of `MessageState`, field for field in the same order."""

    name: Message
    key: str
    status: Status = "ready"
    reason: Reason | None = None
    cycle: int = 1
    cycle_receives: int = 0
    total_receives: int = 0
    effects: int = 0
    dedup_hits: int = 0
    next_at: int | None = 0
    quarantined_at: int | None = None
    redriven: bool = False

    def frozen(self) -> MessageState:
        return MessageState(
            self.name,
            self.key,
            self.status,
            self.reason,
            self.cycle,
            self.cycle_receives,
            self.total_receives,
            self.effects,
            self.dedup_hits,
            self.next_at,
            self.quarantined_at,
            self.redriven,
        )


class _Board:
    """The fold's accumulator: it places pieces where events say and decides nothing itself."""

    def __init__(self) -> None:
        self._index = 0
        self._at = 0
        self._phase: Phase = "source"
        self._repaired = False
        self._pieces = {name: _Piece(name, f"{name}/1") for name in MESSAGES}
        self._store: dict[str, tuple[Message, int, int]] = {}

    def advance(self, event: Event) -> None:
        self._index += 1
        self._at = event.at
        self._phase = event.phase
        match event:
            case Delivered():
                self._deliver(event)
            case Expired():
                self._pieces[event.message].status = "expired"
            case Redriven():
                self._redrive(event)
            case Repaired():
                self._repaired = True
            case Drained() | Inspected() | Completed():
                pass
            case _:
                assert_never(event)

    def _deliver(self, event: Delivered) -> None:
        piece = self._pieces[event.message]
        piece.status, piece.reason, piece.next_at = event.status, event.failure, event.next_at
        piece.cycle_receives, piece.total_receives = event.cycle_receive, event.total_receive
        piece.effects += event.result == "effect"
        piece.dedup_hits += event.result == "hit"
        if event.status == "quarantined":
            piece.quarantined_at = event.at
        if event.expires_at is not None:
            self._store[event.key] = (event.message, event.at, event.expires_at)

    def _redrive(self, event: Redriven) -> None:
        piece = self._pieces[event.message]
        piece.status, piece.key, piece.cycle, piece.cycle_receives = "ready", event.key, 2, 0
        piece.next_at, piece.quarantined_at, piece.redriven = event.at, None, True

    def snapshot(self) -> Snapshot:
        messages = tuple(piece.frozen() for piece in self._pieces.values())
        return Snapshot(
            self._index,
            self._at,
            self._phase,
            self._repaired,
            messages,
            sum(message.effects for message in messages),
            tuple(
                StoredResult(key, intent, committed_at, expires_at, self._at < expires_at)
                for key, (intent, committed_at, expires_at) in self._store.items()
            ),
        )
