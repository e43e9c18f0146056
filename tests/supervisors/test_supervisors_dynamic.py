"""Dynamic and significant children."""

from __future__ import annotations

import pytest
import trio

from supervisors import (
    Backoff,
    ChildLiveError,
    ChildSpec,
    ClosedError,
    Drained,
    DuplicateChildError,
    NoSuchChildError,
    RestartType,
    SpecError,
    StartError,
    StoppingError,
    Strategy,
    Supervisor,
    SupervisorSpec,
)
from supervisors.events import StopAccepted
from supervisors.exits import Cancelled, Completed

TRANSIENT, TEMPORARY = RestartType.TRANSIENT, RestartType.TEMPORARY


def job(script, name, after_s, **fields):
    return ChildSpec(
        name, script.failing(name, lambda: None, after_s=after_s), TRANSIENT, significant=True, **fields
    )


async def test_any_significant_end_shuts_the_supervisor_down(autojump_clock, script):
    """S58: with auto_shutdown="any" the first significant child that ends by itself drains the supervisor."""
    children = (ChildSpec("a", script.forever("a")), job(script, "x", 2), job(script, "y", 5))
    spec = SupervisorSpec("top", children, auto_shutdown="any")
    await Supervisor(spec, observer=script.observe).run()
    assert [event.at for event in script.seen(StopAccepted)] == [2]
    assert script.log[-1] == "a drained"


async def test_all_significant_ends_shut_the_supervisor_down(autojump_clock, script):
    """S58: with auto_shutdown="all" only the end of the last significant child drains the supervisor."""
    children = (ChildSpec("a", script.forever("a")), job(script, "x", 2), job(script, "y", 5))
    await Supervisor(SupervisorSpec("top", children, auto_shutdown="all")).run()
    assert trio.current_time() == pytest.approx(5)


async def test_ends_the_supervisor_caused_do_not_count(autojump_clock, script, opened):
    """S19, S58: terminating a significant child shuts nothing down."""
    async with opened(SupervisorSpec("top", (job(script, "x", 50),), auto_shutdown="any")) as handle:
        assert await handle.terminate_child("x") == Cancelled("drain deadline of 30 s")
        await trio.sleep(1)
        assert handle.snapshot().state == "running"


async def test_start_child_returns_what_the_body_reported(autojump_clock, script, opened):
    """S59: start_child answers once the child reported started, with its value."""

    async def serving(ctx):
        await trio.sleep(2)
        ctx.started("port 5672")
        await ctx.shutdown.wait()

    async with opened(SupervisorSpec("top")) as handle:
        assert await handle.start_child(ChildSpec("c", serving)) == "port 5672"
        assert trio.current_time() == pytest.approx(2)


@pytest.mark.parametrize(("start_failure", "kept"), [("fail", []), ("retry", ["backoff"])])
async def test_start_child_raises_a_failed_start(autojump_clock, script, opened, start_failure, kept):
    """S9, S59: a failed dynamic start raises to its caller; with "retry" the child stays, in backoff."""

    async def refused(ctx):
        await trio.lowlevel.checkpoint()
        raise PermissionError("no")

    async with opened(SupervisorSpec("top")) as handle:
        with pytest.raises(StartError):
            await handle.start_child(ChildSpec("c", refused, start_failure=start_failure))
        assert [child.state for child in handle.which_children()] == kept
        assert handle.snapshot().state == "running"


async def test_wrong_ids_are_refused(autojump_clock, script, opened):
    """S59: unknown, duplicate and live ids are refused with typed errors; nothing changes."""
    async with opened(SupervisorSpec("top", (ChildSpec("a", script.forever("a")),))) as handle:
        with pytest.raises(DuplicateChildError):
            await handle.start_child(ChildSpec("a", script.forever("a")))
        for request in (handle.terminate_child, handle.restart_child, handle.delete_child):
            with pytest.raises(NoSuchChildError):
                await request("nobody")
        for request in (handle.restart_child, handle.delete_child):
            with pytest.raises(ChildLiveError):
                await request("a")
        assert script.log == ["a up"]


async def test_a_contradicting_child_is_refused(autojump_clock, script, opened):
    """S58, S59: start_child holds the new spec against the supervisor's before anything starts."""
    async with opened(SupervisorSpec("top", auto_shutdown="all")) as handle:
        with pytest.raises(SpecError):
            await handle.start_child(ChildSpec("c", script.forever("c"), significant=True))


async def test_a_stopping_supervisor_starts_nothing(autojump_clock, script, opened):
    """S59: every dynamic call on a stopping supervisor raises StoppingError and starts nothing."""
    spec = SupervisorSpec("top", (ChildSpec("slow", script.forever("slow", cleanup_s=5)),))
    async with opened(spec) as handle:
        handle.shutdown()
        with pytest.raises(StoppingError):
            await handle.start_child(ChildSpec("c", script.forever("c")))
        with pytest.raises(StoppingError):
            await handle.terminate_child("slow")
    assert script.log == ["slow up", "slow drained"]


async def test_a_call_that_the_end_overtakes_raises(autojump_clock, script, opened):
    """S6, S59: a request still unanswered when the supervisor stops raises; its start never happens."""

    async def slow(ctx):
        await trio.sleep_forever()

    errors: list[type[Exception]] = []

    async def ask(handle, name):
        try:
            await handle.start_child(ChildSpec(name, slow if name == "slow" else script.forever(name)))
        except (StartError, ClosedError) as error:
            errors.append(type(error))
        await trio.lowlevel.checkpoint()

    async with (
        trio.open_nursery() as outer,
        opened(SupervisorSpec("top", (ChildSpec("s", slow),)), ready=False) as handle,
    ):
        outer.start_soon(ask, handle, "slow")
        outer.start_soon(ask, handle, "later")
        await trio.sleep(1)
        handle.shutdown()
    assert sorted(error.__name__ for error in errors) == ["StoppingError", "StoppingError"]
    assert script.log == []


async def test_a_cancelled_caller_leaves_its_request_standing(autojump_clock, script, opened):
    """S59: cancelling start_child gives up the answer, not the start."""

    async def slow(ctx):
        await trio.sleep(5)
        await script.forever("c")(ctx)

    async with opened(SupervisorSpec("top")) as handle:
        with trio.move_on_after(1):
            await handle.start_child(ChildSpec("c", slow))
        await trio.sleep(5)
        assert script.log == ["c up"]


async def test_terminate_while_starting_cancels_the_start(autojump_clock, script, opened):
    """S59: a child terminated while it starts is cancelled; the waiting start_child raises StartError."""

    async def slow(ctx):
        await trio.sleep_forever()

    async def ask(handle):
        with pytest.raises(StartError):
            await handle.start_child(ChildSpec("c", slow))

    async with opened(SupervisorSpec("top")) as handle, trio.open_nursery() as nursery:
        nursery.start_soon(ask, handle)
        await trio.sleep(1)
        assert await handle.terminate_child("c") == Cancelled("terminate_child")
        await handle.delete_child("c")


async def test_terminate_twice_and_while_down(autojump_clock, script, opened):
    """S59: a second terminate waits for the same end; of a child that is down it answers its last end."""
    flaky = ChildSpec("flaky", script.failing("flaky", lambda: None, runs=9), backoff=Backoff(base_s=30))
    slow = ChildSpec("slow", script.forever("slow", cleanup_s=3))
    async with opened(SupervisorSpec("top", (slow, flaky)), ready=False) as handle:
        await trio.sleep(1)
        assert await handle.terminate_child("flaky") == Completed()
        assert await handle.terminate_child("flaky") == Completed()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle.terminate_child, "slow")
            await trio.sleep(1)
            assert await handle.terminate_child("slow") == Drained()


async def test_a_terminated_group_leader_lets_its_group_go_on(autojump_clock, script, opened):
    """S22, S59: terminating the leader in its backoff starts the stopped members at once, without it."""
    children = (
        ChildSpec("mate", script.forever("mate")),
        ChildSpec("lead", script.failing("lead", ValueError, runs=9), backoff=Backoff(base_s=30)),
    )
    spec = SupervisorSpec("top", children, Strategy.ONE_FOR_ALL, max_restarts=None)
    async with opened(spec, ready=False) as handle:
        await trio.sleep(1)
        await handle.terminate_child("lead")
        await trio.testing.wait_all_tasks_blocked()
        assert [child.state for child in handle.which_children()] == ["running", "done"]


async def test_terminating_a_member_that_its_group_is_stopping_retires_it(autojump_clock, script, opened):
    """S22, S59: a member terminated while its group stops does not come back with the group."""
    children = (
        ChildSpec("mate", script.forever("mate", cleanup_s=3)),
        ChildSpec("temp", script.forever("temp"), TEMPORARY),
        ChildSpec("lead", script.failing("lead", ValueError, after_s=1)),
    )
    async with opened(SupervisorSpec("top", children, Strategy.ONE_FOR_ALL), ready=False) as handle:
        await trio.sleep(2)
        await handle.terminate_child("mate")
        await trio.sleep(2)
        assert [(child.id, child.state) for child in handle.which_children()] == [
            ("mate", "done"),
            ("lead", "running"),
        ]


async def test_children_added_or_restarted_during_a_group_restart_take_their_turn(
    autojump_clock, script, opened
):
    """S8, S22, S59: a start requested while a group restart holds its place waits for the group's walk."""
    children = (
        ChildSpec("done", script.failing("done", lambda: None), TRANSIENT),
        ChildSpec("lead", script.failing("lead", ValueError, after_s=1), backoff=Backoff(base_s=4)),
    )
    spec = SupervisorSpec("top", children, Strategy.ONE_FOR_ALL)
    async with opened(spec, ready=False) as handle, trio.open_nursery() as nursery:
        await trio.sleep(2)
        nursery.start_soon(handle.restart_child, "done")
        nursery.start_soon(handle.start_child, ChildSpec("new", script.forever("new")))
        nursery.start_soon(_terminated, handle, "gone")
        nursery.start_soon(_start_gone, handle, script)
        await trio.sleep(1)
        states = {child.id: child.state for child in handle.which_children()}
        assert states == {"done": "waiting", "lead": "backoff", "new": "waiting"}
        await trio.sleep(3)
        assert script.log[-3:] == ["done up", "lead up", "new up"]


async def _terminated(handle, name):
    await trio.sleep(0.5)
    assert await handle.terminate_child(name) is None


async def _start_gone(handle, script):
    with pytest.raises(NoSuchChildError):
        await handle.start_child(ChildSpec("gone", script.forever("gone"), TEMPORARY))


async def test_counts_and_lists(autojump_clock, script, opened):
    """S55, S59: which_children and count_children show every child, live or not, in declaration order."""
    from supervisors import supervised

    children = (
        ChildSpec("a", script.forever("a")),
        ChildSpec("job", script.failing("job", lambda: None), TRANSIENT),
        ChildSpec("arm", supervised(SupervisorSpec("inner"))),
    )
    async with opened(SupervisorSpec("top", children)) as handle:
        await trio.testing.wait_all_tasks_blocked()
        counts = handle.count_children()
        assert (counts.specs, counts.live, counts.supervisors, counts.workers) == (3, 2, 1, 2)
        assert [child.id for child in handle.which_children()] == ["a", "job", "arm"]
