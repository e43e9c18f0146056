"""A generation ended: classify it once, then restart, retire, rejoin, escalate or close (S13-S25)."""

from __future__ import annotations

from supervisors.actions import Report
from supervisors.backoff import after_end, chance
from supervisors.draft import Draft
from supervisors.errors import IllegalInputError, StartError
from supervisors.events import BackoffChosen, ChildEnded
from supervisors.exits import (
    Cancelled,
    Completed,
    End,
    EndRecord,
    Failed,
    Fatal,
    SettlementFailed,
    StartTimedOut,
    classify,
    is_abnormal,
)
from supervisors.inputs import Ended
from supervisors.spec import RestartType, Strategy
from supervisors.state import (
    Child,
    ChildState,
    Exhausted,
    FatalEnd,
    Head,
    Outlived,
    OwnError,
    StartFailure,
    StopMode,
    Then,
    WalkKind,
)
from supervisors.walks import begin_gather, begin_stop, hurry


def on_ended(draft: Draft, event: Ended) -> None:
    """Follow up on one end."""
    child, walk = draft.child, draft.head.walk
    if event.generation != child.generation or not child.live:
        raise IllegalInputError(f"{child.spec.id}: generation {event.generation} is not live")
    end = _end(draft.head, child, event)
    draft.change(last_end=end, start_tickets=(), stop_tickets=())
    ours = child.then in {Then.CLOSE, Then.REJOIN, Then.RETIRE} or _absorbed(draft.head, child)
    draft.act(Report(ChildEnded(draft.head.path, draft.at, child.spec.id, child.generation, end, ours)))
    _follow_up(draft, EndRecord(draft.at, child.spec.id, child.generation, end))
    if child.start_tickets:  # else nobody reads the error, and making its text costs as much as the rest
        draft.answer(child.start_tickets, error=StartError(child.spec.id, child.generation, end))
    draft.answer(child.stop_tickets, value=end)
    if walk is not None and draft.head.walk == walk and walk.at == child.spec.id:
        draft.walk_on(forward=walk.kind is WalkKind.START)


def _absorbed(head: Head, child: Child) -> bool:
    """A member's end during its group's restart (S24)."""
    group = head.group
    return group is not None and child.position >= group.first and child.then in {None, Then.REJOIN}


def _end(head: Head, child: Child, event: Ended) -> End:
    reason = child.cancel_reason
    if reason is None and _absorbed(head, child):
        reason = "group restart"
    draining = child.state is ChildState.DRAINING
    end = classify(event.outcome, cancel_reason=reason, draining=draining)
    if child.then is Then.FAILED_START and head.stop is None and isinstance(end, Cancelled):
        return _timed_out(child, end.beside)
    return end


def _timed_out(child: Child, own: SettlementFailed | Failed | None) -> SettlementFailed | Failed:
    """S61: a start cancelled at its deadline is a failed start; its own error stays with it (S16)."""
    if isinstance(own, SettlementFailed):
        return own
    return Failed(StartTimedOut(child.spec.start_timeout_s or 0.0, None if own is None else own.detail))


def _follow_up(draft: Draft, record: EndRecord) -> None:
    child = draft.child
    if isinstance(record.end, Fatal):
        draft.move(ChildState.DONE, "fatal")
        draft.note(FatalEnd(record))
        _note_stuck(draft, child)
        hurry(draft, f"{child.spec.id} ended fatally")
    elif draft.head.stop is not None:
        _close(draft, record)
    elif child.then is Then.RETIRE:
        _retire(draft, "terminated")
    elif _absorbed(draft.head, child):
        _rejoin(draft)
    else:
        _ended_by_itself(draft, record)


def _close(draft: Draft, record: EndRecord) -> None:
    child, mode = draft.child, draft.head.stop
    draft.move(ChildState.DONE, draft.stop_reason)
    own = record.end.beside if isinstance(record.end, Cancelled) else record.end
    if isinstance(own, Failed) and mode is not None:
        draft.note(OwnError(record, mode))
    _note_stuck(draft, child)


def _note_stuck(draft: Draft, child: Child) -> None:
    if child.stuck:
        draft.note(Outlived(child.spec.id, child.generation, child.stuck))


def _retire(draft: Draft, reason: str) -> None:
    """S25: a temporary child is forgotten once it ended; the others stay known."""
    temporary = draft.child.spec.restart is RestartType.TEMPORARY
    draft.move(ChildState.REMOVED if temporary else ChildState.DONE, reason)


def _rejoin(draft: Draft) -> None:
    if draft.child.spec.restart is RestartType.TEMPORARY:
        _retire(draft, "stopped with its group")
    else:
        draft.move(ChildState.WAITING, "stopped; its group will restart it")


def _ended_by_itself(draft: Draft, record: EndRecord) -> None:
    child, end = draft.child, record.end
    permanent = child.spec.restart is RestartType.PERMANENT
    job_done = isinstance(end, Completed) and not permanent
    failed_start = child.state is not ChildState.RUNNING and not job_done
    if failed_start and not child.ever_ran and child.spec.start_failure == "fail" and _is_first(draft):
        _refuse(draft, record)
    elif permanent or (child.spec.restart is RestartType.TRANSIENT and is_abnormal(end)):
        _restart(draft, record, failed_start=failed_start)
    else:
        _retire(draft, "ended for good")
        _consider_auto_shutdown(draft)


def _is_first(draft: Draft) -> bool:
    """True for the starts S9 speaks of: during bring-up, or asked for by a caller who is waiting."""
    return draft.head.bring_up or bool(draft.started_by_request)


def _refuse(draft: Draft, record: EndRecord) -> None:
    if draft.started_by_request:
        draft.move(ChildState.REMOVED, "its first start failed")
        return
    draft.move(ChildState.DONE, "its first start failed")
    draft.note(StartFailure(record))
    hurry(draft, f"{record.child} failed to start")


def _restart(draft: Draft, record: EndRecord, *, failed_start: bool) -> None:
    child, head = draft.child, draft.head
    exhausted = _spend(draft, record)
    if exhausted is not None:
        draft.move(ChildState.DONE, "budget exceeded")
        draft.note(exhausted)
        hurry(draft, f"{exhausted.owner}: restart budget exceeded")
        return
    backoff = child.spec.backoff
    ran_s = None if failed_start else draft.at - child.since
    counters = after_end(backoff, child.counters, record.end.end_class, ran_s)
    u = chance(head.spec.seed, f"{head.path}/{child.spec.id}", child.generation + 1)
    delay_s = backoff.delay(counters, u)
    wake_at = draft.at + delay_s
    draft.act(
        Report(BackoffChosen(head.path, draft.at, child.spec.id, child.generation + 1, delay_s, wake_at))
    )
    draft.move(ChildState.BACKOFF, "to be restarted", timer_at=wake_at, counters=counters, delay_s=delay_s)
    if head.spec.strategy is not Strategy.ONE_FOR_ONE and not failed_start:
        begin_gather(draft, wake_at)


def _spend(draft: Draft, record: EndRecord) -> Exhausted | None:
    """Count the end against both budgets; whichever is exceeded first acts (S36, S60)."""
    head, spec = draft.head, draft.child.spec
    if record.end.end_class not in head.spec.counted:
        return None
    window = head.window.add(record, head.spec.max_restarts, head.spec.period_s)
    own = draft.child.window.add(record, spec.max_restarts, spec.period_s)
    draft.change_head(window=window)
    draft.change(window=own)
    if head.spec.max_restarts is not None and window.exceeded(head.spec.max_restarts):
        return Exhausted(head.path, head.spec.max_restarts, head.spec.period_s, window.records)
    if spec.max_restarts is not None and own.exceeded(spec.max_restarts):
        return Exhausted(f"{head.path}/{spec.id}", spec.max_restarts, spec.period_s, own.records)
    return None


def _consider_auto_shutdown(draft: Draft) -> None:
    """S58: only an end by itself counts."""
    child, head = draft.child, draft.head
    wanted = head.spec.auto_shutdown == "any" or (
        head.spec.auto_shutdown == "all" and head.significant_open == 0
    )
    if child.spec.significant and wanted:
        begin_stop(draft, StopMode.DRAIN, f"significant child {child.spec.id} ended")
