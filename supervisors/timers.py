"""A child's timer is due: what it means depends on where the child stands."""

from __future__ import annotations

from supervisors.actions import Abort, Report
from supervisors.draft import Draft
from supervisors.errors import IllegalInputError
from supervisors.events import ChildStuck
from supervisors.state import ChildState, Then, WalkKind
from supervisors.walks import start, wake_group


def on_timer(draft: Draft) -> None:
    """Start deadline, wake-up, drain deadline or STUCK interval, by the child's state."""
    child = draft.child
    if child.timer_at is None or child.timer_at > draft.at:
        raise IllegalInputError(f"{child.spec.id}: no timer is due")
    match child.state:
        case ChildState.STARTING:
            draft.cancel(f"start deadline of {child.spec.start_timeout_s:g} s", Then.FAILED_START)
        case ChildState.BACKOFF:
            _on_wake(draft)
        case ChildState.DRAINING:
            draft.cancel(f"drain deadline of {child.spec.drain_timeout_s:g} s", child.then or Then.CLOSE)
        case _:
            _on_stuck(draft)


def _on_wake(draft: Draft) -> None:
    head, child = draft.head, draft.child
    group, walk = head.group, head.walk
    if group is not None and group.leader == child.spec.id:
        draft.move(ChildState.WAITING, "woke up")
        wake_group(draft, leader=child.spec.id)
    elif (group is not None and child.position >= group.first) or (
        walk is not None and walk.kind is WalkKind.START and child.position > walk.position
    ):
        draft.move(ChildState.WAITING, "woke up; the walk will reach it")
    else:
        start(draft, "woke up")


def _on_stuck(draft: Draft) -> None:
    """S50: one report per interval, and the last rung each time; the wait for the child goes on."""
    child = draft.child
    draft.change(stuck=child.stuck + 1)
    draft.rearm(draft.at + child.spec.stuck_interval_s)
    draft.act(Report(ChildStuck(draft.head.path, draft.at, child.spec.id, child.generation, child.stuck + 1)))
    if child.spec.on_stuck == "abort":
        draft.act(Abort(child.spec.id))
