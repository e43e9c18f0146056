"""Dynamic children: start, terminate, restart, delete by id (S59)."""

from __future__ import annotations

from supervisors.draft import Draft
from supervisors.errors import ChildLiveError, DuplicateChildError, NoSuchChildError
from supervisors.inputs import DeleteChild, Request, RestartChild, StartChild, TerminateChild
from supervisors.spec import RestartType
from supervisors.state import Child, ChildState, Then, WalkKind
from supervisors.walks import drain, start, wake_group


def on_request(draft: Draft, event: Request) -> None:
    """Carry out or refuse one dynamic request; its ticket is answered now, or when the child gets there."""
    tickets = (event.ticket,)
    child = draft.child_or_none
    if draft.head.stop is not None:
        draft.answer(tickets, error=draft.stopping_error())
    elif isinstance(event, StartChild):
        _start_child(draft, event)
    elif child is None:
        draft.answer(tickets, error=NoSuchChildError(event.child))
    elif isinstance(event, TerminateChild):
        _terminate(draft, event.ticket)
    elif child.state is not ChildState.DONE:
        draft.answer(tickets, error=ChildLiveError(f"{child.spec.id} is {child.state.value}"))
    elif isinstance(event, RestartChild):
        draft.change(start_tickets=tickets)
        _start_in_turn(draft, "restart requested")
    else:
        _delete(draft, event)


def _start_child(draft: Draft, event: StartChild) -> None:
    if draft.child_or_none is not None:
        draft.answer((event.ticket,), error=DuplicateChildError(event.spec.id))
        return
    position = draft.head.next_position
    draft.adopt(Child(event.spec, position, since=draft.at, start_tickets=(event.ticket,)))
    _start_in_turn(draft, "start requested")


def _start_in_turn(draft: Draft, reason: str) -> None:
    """Start now, unless a walk or a group restart will reach the child in its turn."""
    head, child = draft.head, draft.child
    walk, group = head.walk, head.group
    held = group is not None and child.position >= group.first
    ahead = walk is not None and walk.kind is WalkKind.START and child.position > walk.position
    if not (held or ahead):
        start(draft, reason)
    elif child.state is ChildState.DONE:
        draft.move(ChildState.WAITING, reason)


def _terminate(draft: Draft, ticket: int) -> None:
    child, head = draft.child, draft.head
    reason = "terminate_child"
    if not child.live:
        if child.state is not ChildState.DONE:
            temporary = child.spec.restart is RestartType.TEMPORARY
            draft.answer(child.start_tickets, error=draft.terminated_error())
            draft.move(ChildState.REMOVED if temporary else ChildState.DONE, reason, start_tickets=())
        draft.answer((ticket,), value=child.last_end)
        if head.group is not None and head.group.leader == child.spec.id:
            wake_group(draft, leader=None)
        return
    draft.change(stop_tickets=(*child.stop_tickets, ticket))
    if child.state is ChildState.RUNNING:
        drain(draft, reason, Then.RETIRE)
    elif child.state is ChildState.STARTING:
        draft.cancel(reason, Then.RETIRE)
    else:
        draft.change(then=Then.RETIRE)


def _delete(draft: Draft, event: DeleteChild) -> None:
    draft.move(ChildState.REMOVED, "delete_child")
    draft.answer((event.ticket,))
