"""The reference model: ``step(head, child, event, at) -> (head', child', actions)``, pure.

It decides everything: who starts, who stops, how long to wait, when to give up. The running supervisor does
the actions and nothing else. It looks at one child at a time; where an order over children matters it asks
for a walk (``Seek``), and the roster, which owns the id -> child mapping, answers with ``Reached`` or
``WalkOver``.
"""

from __future__ import annotations

from typing import assert_never

from supervisors.actions import Action, Seek
from supervisors.draft import Draft
from supervisors.ends import on_ended
from supervisors.errors import IllegalInputError
from supervisors.inputs import (
    BringUp,
    CancelRequested,
    DeleteChild,
    Derived,
    DrainRequested,
    Ended,
    Input,
    Reached,
    RestartChild,
    StartChild,
    Started,
    TerminateChild,
    TimerFired,
    WalkOver,
)
from supervisors.requests import on_request
from supervisors.state import Child, ChildState, Head, StopMode, Walk, WalkKind
from supervisors.timers import on_timer
from supervisors.walks import begin_stop, hurry, on_reached, on_walk_over


def step(
    head: Head, child: Child | None, event: Input | Derived, at: float
) -> tuple[Head, Child | None, tuple[Action, ...]]:
    """One decision at time ``at`` (seconds of Trio's clock).

    ``child`` is the child the event names, None if there is none. A returned child in state REMOVED is to be
    forgotten. Raises ``IllegalInputError``, and changes nothing, for an event that cannot happen here.
    """
    if head.closed:
        raise IllegalInputError(f"{head.path} is closed")
    draft = Draft(head, child, at)
    _dispatch(draft, event)
    return draft.head, draft.child_or_none, tuple(draft.actions)


def _dispatch(draft: Draft, event: Input | Derived) -> None:  # noqa: C901 - one arm per input
    match event:
        case BringUp():
            _on_bring_up(draft)
        case DrainRequested(reason):
            if draft.head.stop is None:
                begin_stop(draft, StopMode.DRAIN, reason)
        case CancelRequested(reason):
            hurry(draft, reason)
        case Started():
            _on_started(draft, event)
        case Ended():
            on_ended(draft, event)
        case TimerFired():
            on_timer(draft)
        case StartChild() | TerminateChild() | RestartChild() | DeleteChild():
            on_request(draft, event)
        case Reached():
            on_reached(draft)
        case WalkOver():
            on_walk_over(draft)
        case _:
            assert_never(event)


def _on_bring_up(draft: Draft) -> None:
    if draft.head.walk is not None or not draft.head.bring_up:
        raise IllegalInputError("brought up already")
    draft.change_head(walk=Walk(WalkKind.START))
    draft.act(Seek(forward=True))


def _on_started(draft: Draft, event: Started) -> None:
    child = draft.child
    if event.generation != child.generation or not child.live or child.state is ChildState.RUNNING:
        raise IllegalInputError(f"{child.spec.id}: generation {event.generation} cannot report started")
    if child.state is not ChildState.STARTING:
        return  # a late success: the stop that overtook it stands (S61)
    draft.move(ChildState.RUNNING, "reported started", ever_ran=True, start_tickets=())
    draft.answer(child.start_tickets, value=event.value)
    walk = draft.head.walk
    if walk is not None and walk.kind is WalkKind.START and walk.at == child.spec.id:
        draft.walk_on(forward=True)
