"""The settler alone: gate, bound, late success, and the abort from a sibling task (S40 to S43)."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
import trio.testing

from craig_mq.core.close import ChannelClose
from craig_mq.core.outcome import ACK_NOT_SENT, ACK_TIMED_OUT, ACK_WRITTEN, AckFailed
from craig_mq.runtime.settler import Settler
from craig_mq.transport.errors import ClosedError


class FakeChannel:
    """Takes settlements; its flush takes ``seconds``, and may ignore cancellation until aborted."""

    def __init__(self, *, seconds=0.0, stubborn=False, closed=None, prompt=False):
        self.prompt = prompt
        self.seconds = seconds
        self.stubborn = stubborn
        self.closed = closed
        self.settled = []
        self.flushes = 0
        self.aborted = trio.Event()
        self.aborted_at = None

    def ack_nowait(self, tag, *, multiple=False):
        if self.closed is not None:
            raise ClosedError(self.closed)
        self.settled.append(("ack", tag))
        return self.prompt

    def nack_nowait(self, tag, *, requeue, multiple=False):
        if self.closed is not None:
            raise ClosedError(self.closed)
        self.settled.append(("requeue" if requeue else "drop", tag))

    async def flush(self):
        self.flushes += 1
        if self.stubborn:
            with trio.CancelScope(shield=True):
                await self.aborted.wait()
        await trio.sleep(self.seconds)

    def abort(self):
        self.aborted_at = trio.current_time()
        self.aborted.set()


def settler_on(channel):
    return Settler(channel, settle_timeout=5, abort_grace=1, abort=channel.abort)


async def test_settlements_of_one_pass_share_a_flush(autojump_clock):
    """Everything accepted before the flusher's turn goes out in one flush, each reported once."""
    channel, outcomes = FakeChannel(), []
    settler = settler_on(channel)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settler.run)
        await trio.lowlevel.checkpoint()
        for tag in range(10):
            settler.ack(tag, outcomes.append)
        settler.requeue(10, outcomes.append)
        await trio.sleep(1)
        nursery.cancel_scope.cancel(reason="done")
    assert outcomes == [ACK_WRITTEN] * 11
    assert channel.flushes == 1
    assert channel.settled[-1] == ("requeue", 10)


async def test_an_ack_that_left_at_once_is_told_at_once(autojump_clock):
    """An ack handed over within its own call needs no flush, unless earlier ones wait for theirs."""
    channel, outcomes = FakeChannel(prompt=True), []
    settler = settler_on(channel)
    settler.ack(1, outcomes.append)
    assert (outcomes, channel.flushes, settler.in_flight) == ([ACK_WRITTEN], 0, False)
    settler.requeue(2, outcomes.append)
    settler.ack(3, outcomes.append)
    assert outcomes == [ACK_WRITTEN]
    await settler.finish()
    assert (outcomes, channel.flushes) == ([ACK_WRITTEN] * 3, 1)


async def test_a_closed_gate_lets_nothing_begin(autojump_clock):
    """After the gate closed a settlement is AckNotSent and nothing reaches the channel."""
    channel, outcomes = FakeChannel(), []
    settler = settler_on(channel)
    settler.close_gate()
    settler.ack(1, outcomes.append)
    settler.requeue(2, outcomes.append)
    assert outcomes == [ACK_NOT_SENT, ACK_NOT_SENT]
    assert channel.settled == []


async def test_a_dead_channel_fails_the_settlement_and_closes_the_gate(autojump_clock):
    """ACK-01: a channel that has ended fails the settlement with its reason, and the gate closes."""
    reason = ChannelClose(406, "unknown delivery tag 9", 60, 80)
    channel, outcomes = FakeChannel(closed=reason), []
    settler = settler_on(channel)
    settler.ack(1, outcomes.append)
    (outcome,) = outcomes
    assert isinstance(outcome, AckFailed)
    assert "unknown delivery tag 9" in str(outcome.error)
    settler.ack(2, outcomes.append)
    assert outcomes[1:] == [ACK_NOT_SENT]


@pytest.mark.parametrize(("seconds", "outcome"), [(4.9, ACK_WRITTEN), (5.1, ACK_TIMED_OUT)])
async def test_the_bound(autojump_clock, seconds, outcome):
    """A flush may take settle_timeout; past it the outcome is unknown and the gate closed (S40, S41)."""
    channel, outcomes = FakeChannel(seconds=seconds), []
    settler = settler_on(channel)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settler.run)
        settler.ack(1, outcomes.append)
        await trio.sleep(6)
        nursery.cancel_scope.cancel(reason="done")
    assert outcomes == [outcome]
    settler.ack(2, outcomes.append)
    assert (outcomes[1:] == [ACK_NOT_SENT]) is (outcome is ACK_TIMED_OUT)
    assert settler.unknown is (outcome is ACK_TIMED_OUT)


async def test_the_bound_counts_from_acceptance(autojump_clock):
    """A settlement accepted while a flush hangs is bounded from its acceptance, not from its flush (S40)."""
    channel, outcomes = FakeChannel(seconds=4), []
    settler = settler_on(channel)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settler.run)
        settler.ack(1, outcomes.append)
        await trio.sleep(1)
        settler.ack(2, lambda outcome: outcomes.append((outcome, trio.current_time() - began)))
        await trio.sleep(20)
        nursery.cancel_scope.cancel(reason="done")
    assert outcomes == [ACK_WRITTEN, (ACK_TIMED_OUT, pytest.approx(6))]


@pytest.mark.parametrize("cancel_at", [None, 0.5, 5.5])
async def test_a_flush_that_ignores_cancellation_loses_its_transport(autojump_clock, cancel_at):
    """At bound + grace a sibling task aborts the transport, also under cancellation (S41, S42)."""
    channel, outcomes = FakeChannel(stubborn=True), []
    settler = settler_on(channel)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settler.run)
        await trio.lowlevel.checkpoint()
        settler.ack(1, outcomes.append)
        await trio.sleep(cancel_at or 10)
        nursery.cancel_scope.cancel(reason="test")
    assert channel.aborted_at is not None
    assert channel.aborted_at - began == pytest.approx(6)
    assert outcomes == [ACK_TIMED_OUT]


async def test_finish_writes_what_no_run_is_left_to_write(autojump_clock):
    """What was accepted after the flusher ended is written by finish, even under cancellation."""
    channel, outcomes = FakeChannel(seconds=1), []
    settler = settler_on(channel)
    settler.ack(1, outcomes.append)
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        await settler.finish()
    assert outcomes == [ACK_WRITTEN]


async def test_finish_is_bounded(autojump_clock):
    """A finish on a transport that ignores cancellation ends by aborting it at bound + grace."""
    channel, outcomes = FakeChannel(stubborn=True), []
    settler = settler_on(channel)
    began = trio.current_time()
    settler.ack(1, outcomes.append)
    await settler.finish()
    assert trio.current_time() - began == pytest.approx(6)
    assert outcomes == [ACK_TIMED_OUT]


async def test_the_flush_behind_a_cancelled_one_is_guarded_too(autojump_clock):
    """What is accepted during a cancelled run's flush is flushed next, and aborted at its own bound (S42)."""
    channel, outcomes = FakeChannel(stubborn=True), []
    settler = settler_on(channel)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settler.run)
        await trio.testing.wait_all_tasks_blocked()
        settler.ack(1, outcomes.append)
        await trio.sleep(2)
        settler.ack(2, outcomes.append)
        nursery.cancel_scope.cancel(reason="test")
        channel.aborted.set()  # The first flush ends, ignoring its cancellation all the same.
        channel.aborted = trio.Event()
    assert channel.aborted_at == began + 2 + 6
    assert outcomes == [ACK_WRITTEN, ACK_TIMED_OUT]


async def test_a_flush_that_never_ends_is_aborted_once(autojump_clock):
    """A flush that outlives even its transport's abort costs no loop: the abort is not repeated (S42)."""
    channel, aborts = FakeChannel(stubborn=True), []
    abort = lambda: aborts.append(trio.current_time())  # noqa: E731
    settler = Settler(channel, settle_timeout=5, abort_grace=1, abort=abort)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settler.run)
        settler.ack(1, [].append)
        await trio.sleep(100)
        channel.abort()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel(reason="done")
    assert aborts == [began + 6]


async def test_the_guard_looks_once_a_bound_and_never_without_flushes(autojump_clock):
    """Flushes in a row wake the task that guards them once per bound; where there are none it sleeps."""
    settler, looks = settler_on(FakeChannel()), []

    class Watch(trio.abc.Instrument):
        def before_task_step(self, task):
            if task.name.endswith("_guard"):
                looks.append(trio.current_time())

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settler.run)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(watch := Watch())
        await trio.sleep(1000)
        for tag in range(100):
            settler.ack(tag, [].append)
            await trio.sleep(0.1)
        await trio.sleep(1000)
        trio.lowlevel.remove_instrument(watch)
        nursery.cancel_scope.cancel(reason="done")
    assert 2 <= len(looks) <= 3
    assert began + 1005 <= looks[0] < looks[-1] <= began + 1015
