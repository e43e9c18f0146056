"""A worker's scope serves many deliveries, and none of them is ended by what ended another."""

from __future__ import annotations

from collections import deque

import trio

from craig_mq.core.steps import AckDelivery, Invoke, Publish
from craig_mq.runtime.deadlines import Deadlines
from craig_mq.runtime.ending import Ending
from craig_mq.runtime.worker import Worker


class OneFlight:
    """A delivery which counts its invocations."""

    def __init__(self, effect):
        self.effect = effect
        self.invocations = 0
        self.timed_out = False


class ConfirmThatMeetsItsBound:
    """A copy whose clean confirm and whose bound come in the same instant."""

    def __init__(self, flight):
        self.flight = flight

    async def publish(self, scope):
        self.flight.effect = AckDelivery()
        scope.cancel(reason="no confirm in time")


class Scene:
    """Everything a worker works with, reduced to what one worker sees of it."""

    def __init__(self, *flights):
        self.flights = deque(flights)
        self.acked = []
        self.ready = False

    # the intake
    async def opened(self):
        await trio.lowlevel.checkpoint()
        return bool(self.flights)

    def due_nowait(self):
        return self.flights.popleft() if self.flights else None

    def take_nowait(self):
        return None

    async def take(self, _scope):
        await trio.lowlevel.checkpoint()

    # the invoker
    async def call(self, flight, _attempt):
        flight.invocations += 1
        await trio.sleep(1)

    def returned(self, flight, _attempt, _began):
        flight.effect = AckDelivery()

    def timed_out(self, flight):
        flight.timed_out = True
        flight.effect = AckDelivery()

    # the performer
    def copy(self, flight):
        return ConfirmThatMeetsItsBound(flight)

    def act(self, flight):
        self.acked.append(flight)

    def report_in_flight(self):
        pass

    # the copies
    def owe(self, _flight):
        return False

    def flush(self):
        pass

    def leave(self):
        pass


async def test_a_bound_that_meets_its_confirm_times_out_no_other_handler(autojump_clock):
    """A publish whose bound fires beside its confirm is acked, and the next handler has its full time."""
    copied, next_one = OneFlight(Publish(None, 1, None, None)), OneFlight(Invoke(1))
    scene, ended = Scene(copied, next_one), []
    worker = Worker(scene, Ending(), scene, scene, scene, copies=scene, bounds=Deadlines(30, "late"))
    await worker.run(lambda: ended.append(True))
    assert scene.acked == [copied, next_one]
    assert (next_one.invocations, next_one.timed_out) == (1, False)
    assert ended == [True]
