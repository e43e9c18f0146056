"""A step being made: the working copies of head and child, and the actions so far.

It lives for one ``step`` only, so the step stays a function of its arguments.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, TypeVar

import attrs

from supervisors.actions import Action, Cancel, Reply, Report, Seek, SetTimer
from supervisors.errors import IllegalInputError, NoSuchChildError, StoppingError
from supervisors.events import CauseNoted, ChildAdded, ChildMoved, ReadinessChanged
from supervisors.state import GONE, Cause, Child, ChildState, Head, Then
from supervisors.transitions import TRANSITIONS

Record = TypeVar("Record", Head, Child)


def _fields(kind: type[attrs.AttrsInstance]) -> tuple[dict[str, int], attrgetter[tuple[object, ...]]]:
    names = [field.name for field in attrs.fields(kind)]
    return {name: at for at, name in enumerate(names)}, attrgetter(*names)


_FIELDS = {kind: _fields(kind) for kind in (Head, Child)}


def replaced(record: Record, **changes: Any) -> Record:
    """A copy with some fields changed: ``attrs.evolve`` with the names looked up once; a step makes several.

    Raises KeyError for a field the record does not have.
    """
    places, values = _FIELDS[type(record)]
    fields = list(values(record))
    for name, value in changes.items():
        fields[places[name]] = value
    return type(record)(*fields)  # type: ignore[arg-type]  # in the order of their definition


class Draft:
    """Head, child and actions of one step at time ``at``."""

    def __init__(self, head: Head, child: Child | None, at: float) -> None:
        self.head = head
        self._original = child
        self._child = child
        self.at = at
        self.actions: list[Action] = []

    @property
    def child(self) -> Child:
        """The child this step is about."""
        if self._child is None:
            raise IllegalInputError("no such child")
        return self._child

    @property
    def child_or_none(self) -> Child | None:
        """The child this step is about, if there is one."""
        return self._child

    def adopt(self, child: Child) -> None:
        """Bring in a new child."""
        self._child = child
        head = self.head
        more = int(child.spec.significant)
        self.change_head(
            next_position=child.position + 1,
            significant=head.significant + more,
            significant_open=head.significant_open + more,
        )
        self.act(Report(ChildAdded(head.path, self.at, child.spec)))

    def act(self, action: Action) -> None:
        """Ask for one action."""
        self.actions.append(action)

    def change_head(self, **changes: Any) -> None:
        """Replace fields of the head; reports when readiness changes."""
        before = self.head.ready
        self.head = replaced(self.head, **changes)
        if self.head.ready != before:
            self.act(Report(ReadinessChanged(self.head.path, self.at, self.head.ready)))

    def change(self, **changes: Any) -> None:
        """Replace fields of the child that are not its state."""
        self._child = replaced(self.child, **changes)

    def move(self, after: ChildState, reason: str, *, timer_at: float | None = None, **changes: Any) -> None:
        """Move the child along an edge of the transition table; its timer becomes ``timer_at``."""
        before = self.child
        if (before.state, after) not in TRANSITIONS:
            raise IllegalInputError(
                f"{before.spec.id}: {before.state.value} -> {after.value} is no transition"
            )
        self._child = replaced(before, state=after, since=self.at, timer_at=timer_at, **changes)
        if timer_at != before.timer_at:
            self.act(SetTimer(before.spec.id, timer_at))
        self.act(
            Report(
                ChildMoved(
                    self.head.path,
                    self.at,
                    before.spec.id,
                    self.child.generation,
                    before.state,
                    after,
                    reason,
                )
            )
        )
        if before.spec.significant:
            self._count_significant(before.state, after)

    def _count_significant(self, before: ChildState, after: ChildState) -> None:
        head = self.head
        self.change_head(
            significant=head.significant - (after is ChildState.REMOVED),
            significant_open=head.significant_open + (after not in GONE) - (before not in GONE),
            significant_running=head.significant_running
            + (after is ChildState.RUNNING)
            - (before is ChildState.RUNNING),
        )

    def cancel(self, reason: str, then: Then) -> None:
        """Cancel the child's generation and arm its stop deadline (S49)."""
        self.move(
            ChildState.STOPPING,
            reason,
            timer_at=self.at + self.child.spec.stop_timeout_s,
            cancel_reason=reason,
            then=then,
        )
        self.act(Cancel(self.child.spec.id, reason))

    def rearm(self, at: float) -> None:
        """Move the child's timer."""
        self.change(timer_at=at)
        self.act(SetTimer(self.child.spec.id, at))

    @property
    def stop_reason(self) -> str:
        """Why the supervisor stops."""
        return self.head.stop_reason or "stop"

    @property
    def started_by_request(self) -> bool:
        """True while a caller of ``start_child`` waits for this child's start."""
        return bool(self._original.start_tickets) if self._original is not None else False

    def stopping_error(self) -> StoppingError:
        """What a dynamic request on a stopping supervisor gets (S59)."""
        return StoppingError(f"{self.head.path} is stopping: {self.stop_reason}")

    def terminated_error(self) -> NoSuchChildError:
        """What a pending start gets when its child is terminated before its turn."""
        return NoSuchChildError(f"{self.child.spec.id} was terminated before it started")

    def note(self, cause: Cause) -> None:
        """Remember what ``run()`` will raise."""
        self.head = replaced(self.head, causes=(*self.head.causes, cause))
        self.act(Report(CauseNoted(self.head.path, self.at, cause)))

    def answer(
        self, tickets: tuple[int, ...], *, value: object = None, error: Exception | None = None
    ) -> None:
        """Answer dynamic requests."""
        for ticket in tickets:
            self.act(Reply(ticket, value, error))

    def walk_on(self, *, forward: bool) -> None:
        """Leave the child the walk waits at, for the next one."""
        self.act(Seek(forward, self.child.spec.id))
