"""The walks over the children: start forward; gather, quench and stop backward. Each waits at one child."""

from __future__ import annotations

from typing import assert_never

import attrs

from supervisors.actions import Drain, Finish, Report, Seek, Start
from supervisors.draft import Draft
from supervisors.errors import IllegalInputError
from supervisors.events import GroupRestart, StopAccepted, SupervisorClosed
from supervisors.spec import Strategy
from supervisors.state import ChildState, Group, StopMode, Then, Walk, WalkKind


def start(draft: Draft, reason: str) -> None:
    """Start the child's next generation."""
    spec = draft.child.spec
    limit = spec.start_timeout_s
    draft.move(
        ChildState.STARTING,
        reason,
        timer_at=None if limit is None else draft.at + limit,
        generation=draft.child.generation + 1,
        delay_s=None,
        cancel_reason=None,
        then=None,
        stuck=0,
    )
    draft.act(Start(spec, draft.child.generation))


def begin_stop(draft: Draft, mode: StopMode, reason: str) -> None:
    """Accept a stop request: from here on nothing starts (S48)."""
    draft.change_head(stop=mode, stop_reason=reason, group=None, walk=Walk(WalkKind.QUENCH))
    draft.act(Report(StopAccepted(draft.head.path, draft.at, mode, reason)))
    draft.act(Seek(forward=False))


def hurry(draft: Draft, reason: str) -> None:
    """Accept a cancel: it begins the stop, or overtakes a drain under way (S45)."""
    head = draft.head
    if head.stop is None:
        begin_stop(draft, StopMode.CANCEL, reason)
    elif head.stop is StopMode.DRAIN:
        draft.change_head(stop=StopMode.CANCEL, stop_reason=reason)
        draft.act(Report(StopAccepted(head.path, draft.at, StopMode.CANCEL, reason)))
        child = draft.child_or_none
        walk = head.walk
        if walk is not None and (child is None or child.spec.id != walk.at):
            draft.act(Seek(forward=False, start=walk.at, inclusive=True))


def begin_gather(draft: Draft, wake_at: float) -> None:
    """Stop the group of the child that just ended, at once, in reverse, while its backoff runs (S21, S22)."""
    head, child = draft.head, draft.child
    first = child.position if head.spec.strategy is Strategy.REST_FOR_ONE else 0
    if head.group is not None and not head.group.awake:
        wake_at = max(wake_at, head.group.wake_at)
        draft.rearm(wake_at)
    draft.act(Report(GroupRestart(head.path, draft.at, child.spec.id, child.generation)))
    draft.change_head(group=Group(child.spec.id, first, wake_at), walk=Walk(WalkKind.GATHER))
    draft.act(Seek(forward=False))


def wake_group(draft: Draft, *, leader: str | None) -> None:
    """The leader's wait is over (or it was terminated: no leader); start the group once all members ended."""
    group = draft.head.group
    if group is None:
        raise IllegalInputError("no group restart is under way")
    draft.change_head(group=attrs.evolve(group, leader=leader, awake=True))
    if group.gathered:
        _begin_start(draft)


def on_reached(draft: Draft) -> None:
    """The walk under way reached a child: act on it and wait there, or go on."""
    walk = draft.head.walk
    if walk is None:
        raise IllegalInputError("no walk is under way")
    match walk.kind:
        case WalkKind.START:
            waits = _start_visit(draft)
        case WalkKind.GATHER:
            if _outside_group(draft):
                on_walk_over(draft)
                return
            waits = _gather_visit(draft)
        case WalkKind.QUENCH:
            waits = _quench_visit(draft)
        case WalkKind.STOP:
            waits = _stop_visit(draft)
        case _:
            assert_never(walk.kind)
    if waits:
        draft.change_head(walk=Walk(walk.kind, draft.child.spec.id, draft.child.position))
    else:
        draft.walk_on(forward=walk.kind is WalkKind.START)


def on_walk_over(draft: Draft) -> None:
    """The walk under way has no further child."""
    head = draft.head
    walk = head.walk
    if walk is None:
        raise IllegalInputError("no walk is under way")
    match walk.kind:
        case WalkKind.START:
            draft.change_head(walk=None, bring_up=False)
        case WalkKind.GATHER:
            if head.group is None:
                raise IllegalInputError("no group restart is under way")
            draft.change_head(walk=None, group=attrs.evolve(head.group, gathered=True))
            if head.group.awake:
                _begin_start(draft)
        case WalkKind.QUENCH:
            draft.change_head(walk=Walk(WalkKind.STOP))
            draft.act(Seek(forward=False))
        case WalkKind.STOP:
            draft.change_head(walk=None, closed=True)
            draft.act(Report(SupervisorClosed(head.path, draft.at)))
            draft.act(Finish())
        case _:
            assert_never(walk.kind)


def _begin_start(draft: Draft) -> None:
    group = draft.head.group
    rest = draft.head.spec.strategy is Strategy.REST_FOR_ONE
    leader = group.leader if group is not None and rest else None
    draft.change_head(group=None, walk=Walk(WalkKind.START))
    draft.act(Seek(forward=True, start=leader, inclusive=True))


def _outside_group(draft: Draft) -> bool:
    group = draft.head.group
    return group is not None and draft.child.position < group.first


def _start_visit(draft: Draft) -> bool:
    if draft.child.state is not ChildState.WAITING:
        return False
    start(draft, "its turn")
    return True


def _gather_visit(draft: Draft) -> bool:
    group = draft.head.group
    if group is not None and draft.child.state in {ChildState.STARTING, ChildState.RUNNING}:
        draft.cancel(f"group restart of {group.leader}", Then.REJOIN)
    return draft.child.live


def _quench_visit(draft: Draft) -> bool:
    if draft.child.state in {ChildState.WAITING, ChildState.BACKOFF}:
        draft.move(ChildState.DONE, draft.stop_reason)
        draft.answer(draft.child.start_tickets, error=draft.stopping_error())
        draft.change(start_tickets=())
    return False


def _stop_visit(draft: Draft) -> bool:
    child, reason = draft.child, draft.stop_reason
    if child.state is ChildState.RUNNING and draft.head.stop is StopMode.DRAIN:
        drain(draft, reason, Then.CLOSE)
    elif child.state in {ChildState.STARTING, ChildState.RUNNING} or (
        child.state is ChildState.DRAINING and draft.head.stop is StopMode.CANCEL
    ):
        draft.cancel(reason, Then.CLOSE)
    return draft.child.live


def drain(draft: Draft, reason: str, then: Then) -> None:
    """Request the child's graceful token and arm the drain deadline (S47)."""
    spec = draft.child.spec
    draft.move(ChildState.DRAINING, reason, timer_at=draft.at + spec.drain_timeout_s, then=then)
    draft.act(Drain(spec.id, reason))
