"""Settlements against shutdown, cancellation and silent peers; only the supervisor reconnects."""

from __future__ import annotations

import pytest
import trio

from supervisors import Backoff, ChildSpec, SettlementFailed, Shutdown, SupervisorSpec, sleep_or_shutdown
from supervisors.settling import Flushed, SettlementGate


class Wire:
    """A transport: writes take ``slow_s``, ignore cancellation if ``deaf``, and end at once when aborted."""

    def __init__(self, slow_s: float = 0.0, *, deaf: bool = False, error: Exception | None = None) -> None:
        self.slow_s, self.deaf, self.error = slow_s, deaf, error
        self.written: list[int] = []
        self.aborted_at: list[float] = []
        self._abort = trio.Event()

    async def write(self, tags) -> None:
        with trio.CancelScope(shield=self.deaf), trio.move_on_after(self.slow_s):
            await self._abort.wait()
        await trio.lowlevel.cancel_shielded_checkpoint()
        if self.error is not None:
            raise self.error
        self.written += tags

    def abort(self) -> None:
        self.aborted_at.append(trio.current_time())
        self._abort.set()


async def test_a_settlement_is_accepted_once(autojump_clock):
    """S39: a delivery is settled at most once per generation: a second accept of its tag is refused."""
    gate = SettlementGate[int]()
    assert [gate.accept(1), gate.accept(1), gate.accept(2)] == [True, False, True]
    wire = Wire()
    assert await gate.flush(wire.write, wire.abort) == Flushed((1, 2), "written")
    assert [gate.accept(1), await gate.flush(wire.write, wire.abort)] == [False, Flushed((), "written")]
    assert wire.written == [1, 2]


async def test_another_generation_has_a_gate_of_its_own(autojump_clock):
    """S39, S44: a dropped generation's accepted but unflushed settlements are never written by the next."""
    old, new, wire = SettlementGate[int](), SettlementGate[int](), Wire()
    assert old.accept(1)
    old.close("dropped")
    assert await new.flush(wire.write, wire.abort) == Flushed((), "written")
    assert wire.written == []


async def test_a_flush_is_not_raced_against_cancellation(autojump_clock):
    """S40: a flush under way when everything is cancelled still ends written, within its bound."""
    gate, wire, outcomes = SettlementGate[int](), Wire(slow_s=3), []
    with trio.move_on_after(1) as scope:
        gate.accept(1)
        outcomes.append(await gate.flush(wire.write, wire.abort))
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert outcomes == [Flushed((1,), "written")]
    assert trio.current_time() == pytest.approx(3)


async def test_the_bound_runs_from_the_oldest_unflushed_settlement(autojump_clock):
    """S40: the deadline is the oldest unflushed settlement + 5 s, not the flush's own start + 5 s."""
    gate, wire = SettlementGate[int](bound_s=5, grace_s=1), Wire(slow_s=60)
    gate.accept(1)
    await trio.sleep(4)
    gate.accept(2)
    assert (await gate.flush(wire.write, wire.abort)).outcome == "unknown"
    assert trio.current_time() == pytest.approx(5)


async def test_a_late_success_is_unknown(autojump_clock):
    """S41, S42: past its bound a settlement is unknown even if the call then reports success."""
    gate, wire = SettlementGate[int](bound_s=5, grace_s=10), Wire(slow_s=6, deaf=True)
    gate.accept(1)
    assert await gate.flush(wire.write, wire.abort) == Flushed((1,), "unknown")
    assert wire.written == [1]
    assert wire.aborted_at == [pytest.approx(6)]


async def test_a_deaf_write_is_aborted_by_a_sibling(autojump_clock):
    """S42: when bound and grace passed, a sibling task aborts the transport, so the flush ends."""
    gate, wire = SettlementGate[int](bound_s=5, grace_s=1), Wire(slow_s=1_000, deaf=True)
    gate.accept(1)
    assert (await gate.flush(wire.write, wire.abort)).outcome == "unknown"
    assert wire.aborted_at == [pytest.approx(6)]


async def test_a_failed_write_is_unknown(autojump_clock):
    """S41: a write that raises leaves the settlement unknown and closes the gate."""
    gate, wire = SettlementGate[int](), Wire(error=OSError("reset"))
    gate.accept(1)
    assert (await gate.flush(wire.write, wire.abort)).outcome == "unknown"
    assert gate.closed_because == "a settlement is unknown"


async def test_after_a_failure_no_settlement_begins(autojump_clock):
    """S43, S44: once the gate is closed nothing is accepted."""
    gate, wire, late = SettlementGate[int](), Wire(slow_s=2), []

    async def fail() -> None:
        await trio.sleep(1)
        gate.close("publish failed")
        gate.close("again")
        late.append(gate.accept(2))

    async with trio.open_nursery() as nursery:
        gate.accept(1)
        nursery.start_soon(fail)
        assert await gate.flush(wire.write, wire.abort) == Flushed((1,), "written")
    assert late == [False]
    assert (wire.written, gate.closed_because) == ([1], "publish failed")


async def test_the_old_session_is_gone_before_the_new_one_connects(autojump_clock, opened):
    """S2, S4, S7: each generation connects once, after the old one's resources were released."""
    log: list[str] = []

    async def session(ctx):
        log.append(f"connect {ctx.generation}")
        await trio.sleep(0.1)
        ctx.started()
        try:
            if ctx.generation < 3:
                await trio.sleep(1)
                return SettlementFailed("nacked")
            await ctx.shutdown.wait()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await trio.sleep(0.5)
            log.append(f"closed {ctx.generation}")
        return None

    spec = SupervisorSpec("arm", (ChildSpec("session", session, backoff=Backoff()),), max_restarts=None)
    async with opened(spec):
        await trio.sleep(20)
    assert log == [f"{what} {n}" for n in (1, 2, 3) for what in ("connect", "closed")]


async def test_a_close_that_hangs_is_aborted_before_the_next_generation(autojump_clock, opened):
    """S4, S42: an old session whose close hangs is aborted by its hook."""
    log: list[str] = []

    async def session(ctx):
        log.append(f"connect {ctx.generation}")
        gone = trio.Event()
        ctx.set_abort(lambda: (log.append(f"abort {ctx.generation}"), gone.set())[1])
        if ctx.generation == 1:
            with trio.CancelScope(shield=True):
                await gone.wait()
        ctx.started()
        await ctx.shutdown.wait()

    child = ChildSpec(
        "session", session, start_timeout_s=1, stop_timeout_s=1, on_stuck="abort", start_failure="retry"
    )
    async with opened(SupervisorSpec("arm", (child,)), ready=False):
        await trio.sleep(20)
    assert log == ["connect 1", "abort 1", "connect 2"]


async def test_shutdown_goes_from_parent_to_child_only(autojump_clock):
    """S45: a drain request reaches child tokens, made before or after it."""
    parent = Shutdown()
    early = parent.child()
    lone = parent.child()
    lone.request("mine")
    assert (parent.requested, early.requested, lone.reason) == (False, False, "mine")
    parent.request("deploy")
    parent.request("later")
    await early.wait()
    assert (early.reason, lone.reason, parent.child().reason) == ("deploy", "mine", "deploy")


async def test_a_sleep_ends_at_the_shutdown_request(autojump_clock):
    """S33: sleep_or_shutdown sleeps in full, or ends within one step of the request."""
    shutdown = Shutdown()
    assert await sleep_or_shutdown(3, shutdown)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleep_or_shutdown, 60, shutdown)
        shutdown.request("stop")
    assert trio.current_time() == pytest.approx(3)
    assert not await sleep_or_shutdown(60, shutdown)
    with pytest.raises(ValueError, match="seconds"):
        await sleep_or_shutdown(-1, shutdown)
