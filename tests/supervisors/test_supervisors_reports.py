"""Reports: the log replays, snapshots are consistent, observers cannot hurt."""

from __future__ import annotations

import json

import attrs
import pytest
import trio

from supervisors import ChildSpec, Strategy, SupervisorSpec, render, run_supervisor, supervised, to_json
from supervisors.events import HookRaised, InputTaken, SupervisorStarted
from supervisors.inputs import BringUp, DrainRequested
from supervisors.testing import TraceChecker, TraceError, check_trace


def flaky_tree(script):
    inner = SupervisorSpec(
        "inner",
        (
            ChildSpec("x", script.forever("x")),
            ChildSpec("y", script.failing("y", lambda: ValueError("torn"), runs=2, after_s=1)),
        ),
        Strategy.ONE_FOR_ALL,
    )
    return SupervisorSpec("top", (ChildSpec("a", script.forever("a")), ChildSpec("arm", supervised(inner))))


async def test_the_log_replays_through_the_model(autojump_clock, script, opened):
    """S52: folding the model over the logged inputs gives every report, in order, of every supervisor."""
    async with opened(flaky_tree(script), ready=False):
        await trio.sleep(10)
    assert sum(isinstance(event, InputTaken) for event in script.events) > 15
    check_trace(script.events)


async def test_the_folded_state_equals_the_snapshot_after_every_input(autojump_clock, script, opened):
    """S52, S55: after every input, snapshot() shows what folding the inputs so far gives."""
    checker = TraceChecker()
    compared = 0

    def observe(event):
        nonlocal compared
        if isinstance(event, InputTaken) and event.path == "top":
            checker.check(event)
            shown = handles[0].snapshot()
            children = tuple(attrs.evolve(child, supervisor=None) for child in shown.children)
            assert checker.snapshot("top") == attrs.evolve(shown, children=children)
            compared += 1
        elif event.path == "top":
            checker.check(event)

    handles = []
    from supervisors import Supervisor

    handles.append(Supervisor(flaky_tree(script), observer=observe))
    with trio.move_on_after(10):
        await handles[0].run()
    assert handles[0].last_observer_error is None
    assert compared > 5


@pytest.mark.parametrize("damage", ["drop", "swap", "forge", "cut", "orphan"])
async def test_a_log_that_does_not_follow_is_found(autojump_clock, script, opened, damage):
    """S52: a report that is missing, out of order or forged, or a log cut short, is found by the checker."""
    async with opened(flaky_tree(script), ready=False):
        await trio.sleep(5)
    events = list(script.events)
    reports = [n for n, event in enumerate(events) if not isinstance(event, InputTaken | SupervisorStarted)]
    where = reports[len(reports) // 2]
    if damage == "drop":
        del events[where]
    elif damage == "swap":
        last = max(n for n in reports if n - 1 in reports)
        events[last - 1], events[last] = events[last], events[last - 1]
    elif damage == "forge":
        events[where] = attrs.evolve(events[where], at=events[where].at + 1)
    elif damage == "orphan":
        events.insert(0, next(event for event in events if isinstance(event, InputTaken)))
    else:
        while not isinstance(events[-1], InputTaken) or events[-1].path != "top":
            events.pop()
    with pytest.raises(TraceError):
        check_trace(events)


async def test_a_log_of_an_open_supervisor_is_incomplete(autojump_clock, script):
    """S52: a log that ends before its supervisor closed is refused as a whole log."""
    checker = TraceChecker()
    checker.check(SupervisorStarted("top", 0.0, SupervisorSpec("top")))
    with pytest.raises(TraceError, match="left open"):
        checker.finish()


async def test_an_observer_that_raises_changes_nothing(autojump_clock, script):
    """S53: with an observer that raises at every event the tree lives as without; the last error is kept."""
    from supervisors import Supervisor

    def angry(_):
        raise ValueError("observer")

    handle = Supervisor(flaky_tree(script), observer=angry)
    with trio.move_on_after(10):
        await handle.run()
    assert script.log[-1] == "a cancelled"
    assert handle.observer_failures > 20
    assert isinstance(handle.last_observer_error, ValueError)


async def test_calls_of_an_observer_are_queued(autojump_clock, script):
    """S53: an observer that asks for a shutdown at the first report is heard after the input under way."""
    from supervisors import Supervisor

    def eager(event):
        script.observe(event)
        if isinstance(event, InputTaken) and len(script.seen(InputTaken)) == 1:
            handle.shutdown("from the observer")

    handle = Supervisor(flaky_tree(script), observer=eager)
    await handle.run()
    kinds = [type(event.input).__name__ for event in script.events if isinstance(event, InputTaken)]
    assert kinds[:2] == ["BringUp", "DrainRequested"]
    check_trace(script.events)


async def test_snapshots_show_the_tree_as_text_and_json(autojump_clock, script, opened):
    """S52, S55: a snapshot never waits, nests, holds absolute times only, and renders as text and JSON."""
    async with opened(flaky_tree(script), ready=False) as handle:
        await trio.sleep(1.5)
        text = render(handle.snapshot())
        assert text.splitlines() == [
            "top [one_for_one] running, ready",
            "  a #1 running (permanent) since 0",
            "  arm #1 running (permanent) since 0",
            "    top/arm [one_for_all] running, ready",
            "      x #1 waiting (permanent) since 1, last end: cancelled: group restart of y",
            "      y #1 backoff (permanent) since 1, timer 2, k=0 f=1, last end: failed: ValueError: torn",
        ]
        tree = json.loads(json.dumps(to_json(handle.snapshot())))
        assert tree["children"][1]["supervisor"]["children"][1]["timer_at"] == 2
        handle.shutdown("deploy")
    assert render(handle.snapshot()).startswith("top [one_for_one] closed, not ready, deploy")


async def test_a_stuck_child_shows_in_the_rendering(autojump_clock, script, opened):
    """S50, S55: the rendering tells a STUCK child, its reports, and a stopping supervisor's mode."""
    child = ChildSpec("c", script.forever("c", cleanup_s=4), stop_timeout_s=1, drain_timeout_s=1)
    shown: list[str] = []
    with pytest.RaisesGroup(Exception):
        async with opened(SupervisorSpec("top", (child,))) as handle:
            handle.shutdown("deploy")
            await trio.sleep(0.5)
            shown.append(handle.snapshot().state)
            handle.cancel("hurry")
            await trio.sleep(2)
            shown.append(handle.snapshot().state)
            assert "STUCK 1" in render(handle.snapshot())
    assert shown == ["draining", "cancelling"]
    assert "last end: cancelled: hurry" in render(handle.snapshot())


async def test_without_an_observer_nothing_is_reported(autojump_clock, script):
    """S53: the observer is optional."""
    with trio.move_on_after(2.5):
        await run_supervisor(flaky_tree(script))
    assert script.events == []


def brought_up(*reports):
    spec = SupervisorSpec("top")
    return [SupervisorStarted("top", 0.0, spec), InputTaken("top", 0.0, BringUp()), *reports]


def test_a_missing_report_shows_at_the_next_input_or_at_the_end():
    """S52: a report the model gave and the log lacks is found at the next input."""
    checker = TraceChecker()
    for event in brought_up():
        checker(event)
    with pytest.raises(TraceError, match="lacks"):
        checker.finish()
    with pytest.raises(TraceError, match="lacks"):
        checker(InputTaken("top", 1.0, DrainRequested("now")))
    with pytest.raises(TraceError, match="lacks"):
        checker.finish()


def test_what_a_hook_raised_is_no_report_of_the_model():
    """S50, S52: HookRaised stands in the log without the model knowing it."""
    checker = TraceChecker()
    for event in brought_up(HookRaised("top", 0.0, "c", OSError())):
        checker.check(event)
    assert checker.error is None
