"""One simulated world: the embedded broker, its subscribers, its operators and a clock that jumps."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import attrs
import trio

from craig_mq.core.outcome import Acked
from craig_mq.testing.simulate.acts import calm, perform
from craig_mq.testing.simulate.evidence import Evidence, Life, Struck
from craig_mq.testing.simulate.letters import DURABLE, body_of, letter_in, route_of
from craig_mq.testing.simulate.scenario import (
    PARKING,
    QUARANTINE,
    QUEUE,
    Act,
    Behaviour,
    Letter,
    Lifecycle,
    Scenario,
    role_and_replica,
)
from craig_mq.testing.simulate.subscriber import Subscriber
from craig_mq.transport.memory import FaultPlan, MemoryBroker, Occurrence
from craig_mq.transport.memory.refusals import Refused

EPOCH_S = 1_800_000_000.0
SETTLING_LIMIT_S = 240.0
STOPPING_LIMIT_S = 90.0
PUBLISH_AGAIN_S = 1.0
NOTICING_S = 10.0
_LOOK_S = 2.0


class World:
    """Carries out one scenario and keeps the evidence."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.chance = random.Random(scenario.seed)  # noqa: S311 - reproducible, not secret
        self.wall_step = 0.0
        self.broker = MemoryBroker(scenario.profile, trace=True, wall_clock=self.wall)
        self.bodies = {number: body_of(number, letter.shape) for number, letter in self._letters}
        self.subscribers = [Subscriber(self, at, one) for at, one in enumerate(scenario.replicas)]
        self.lives: list[Life] = []
        self.down = False
        self.calm = False
        self.closing = False
        self._invocations: Counter[int] = Counter()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._met: list[tuple[str, Lifecycle]] = []
        self._struck: list[Struck] = []
        self._acts_done: list[str] = []

    @property
    def _letters(self) -> list[tuple[int, Letter]]:
        return list(enumerate(self.scenario.letters, start=1))

    def wall(self) -> float:
        """The wall clock of every process in this world, with its steps."""
        return EPOCH_S + trio.current_time() + self.wall_step

    def next_behaviour(self, number: int) -> Behaviour:
        """Return what the handler does with this letter this time."""
        count = self._invocations[number]
        self._invocations[number] += 1
        return self.scenario.letters[number - 1].behaviour(count)

    def publish(self, route: tuple[str, str], body: bytes) -> None:
        """Publish as a careful producer does: again and again until it is confirmed."""
        try:
            kept = not self.down and isinstance(self.broker.publish(*route, body, DURABLE), Acked)
        except Refused:
            kept = False
        if not kept:
            self._later(PUBLISH_AGAIN_S, partial(self.publish, route, body))

    async def run(self) -> Evidence:
        """Run the safety phase, the liveness phase and the end. Never raises for what a checker judges."""
        tasks_before = trio.lowlevel.current_statistics().tasks_living
        self._prepare()
        left_behind: list[str] = []
        async with trio.open_nursery() as outer:
            outer.start_soon(self.broker.keep_time)
            unsettled = await self._live(left_behind)
            outer.cancel_scope.cancel(reason="the simulation ends")
        left_behind += [f"connection {name}" for name in self.broker.connections]
        left_behind += [f"open {role}" for one in self.subscribers for role in one.open_roles]
        tasks = trio.lowlevel.current_statistics().tasks_living - tasks_before
        if tasks:
            left_behind.append(f"{tasks} tasks")
        return self._evidence(unsettled, left_behind)

    async def _live(self, left_behind: list[str]) -> tuple[str, ...]:
        """Let everything happen, phase by phase; return what was not settled, add what did not stop."""
        async with trio.open_nursery() as nursery:
            for subscriber in self.subscribers:
                nursery.start_soon(subscriber.run)
            await self._follow_agenda(self.scenario.calm_after)
            self._remember_strikes()
            self.calm = True
            calm(self)
            unsettled = await self._settle()
            self.closing = True
            for subscriber in self.subscribers:
                subscriber.shutdown()
            with trio.move_on_after(STOPPING_LIMIT_S) as patience:  # noqa: ASYNC912 - there are subscribers
                for subscriber in self.subscribers:
                    await subscriber.ended.wait()
            if patience.cancelled_caught:
                left_behind.append("a subscription that does not stop")
                nursery.cancel_scope.cancel(reason="the simulation ends")
        if self.broker.connections:
            # A broker that could not read a reset misses the client's heartbeats.
            await trio.sleep(NOTICING_S)
        return unsettled

    def _prepare(self) -> None:
        """Let the producers' side of the topology stand, inject the faults and write the agenda."""
        scenario, broker = self.scenario, self.broker
        kind = scenario.replicas[0].options.queue_type
        arguments: dict[str, object] = {"x-queue-type": kind}
        if kind == "quorum":
            arguments["x-delivery-limit"] = 2**31 - 1
        broker.declare_exchange("craig.dlx")
        broker.declare_queue(QUEUE, arguments)
        broker.bind("craig.dlx", QUEUE, "dlq.#")
        if scenario.max_message_size is not None:
            broker.set_max_message_size(scenario.max_message_size)
        faults = [attrs.evolve(fault, where=self._watch) for fault in scenario.faults.faults]
        if scenario.target is not None:
            faults.insert(0, attrs.evolve(scenario.target.fault, where=self._on_target))
        broker.inject(FaultPlan(faults, scenario.faults.seed))
        for number, letter in self._letters:
            publish = partial(self.publish, route_of(letter.shape), self.bodies[number])
            self._later(letter.at, publish)
        for act in scenario.acts:
            self._later(act.at, partial(self._perform, act))

    def _later(self, seconds: float, deed: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (trio.current_time() + seconds, next(self._order), deed))

    def _perform(self, act: Act) -> None:
        undo = perform(self, act)
        self._acts_done.append(act.kind)
        if undo is not None:
            self._later(act.argument, undo)

    async def _follow_agenda(self, until: float) -> None:
        while self._agenda and self._agenda[0][0] <= until:
            due = self._agenda[0][0]
            await trio.sleep_until(due)
            while self._agenda and self._agenda[0][0] <= due:
                heapq.heappop(self._agenda)[2]()
        await trio.sleep_until(until)

    async def _settle(self) -> tuple[str, ...]:
        """Wait, with no fault left, until nothing is left but what is quarantined."""
        deadline = trio.current_time() + SETTLING_LIMIT_S
        while trio.current_time() < deadline:
            await self._follow_agenda(trio.current_time() + _LOOK_S)
            left = self._unsettled()
            if not left:
                return ()
        return self._unsettled()  # noqa: ASYNC910 - the agenda is followed at least once

    def _unsettled(self) -> tuple[str, ...]:
        names = self.broker.queues
        views = [self.broker.queue(name) for name in (QUEUE, PARKING) if name in names]
        left = [
            f"{view.name}: {view.ready} ready, {view.unacked} unacked"
            for view in views
            if view.ready + view.unacked
        ]
        return (*left, *(["not yet published"] if self._agenda else []))

    # --- what the faults met ----------------------------------------------------------------------

    def _state(self, occurrence: Occurrence) -> tuple[str, Lifecycle]:
        """Tell whose connection it is, and which part of that subscription's life it meets."""
        role, replica = role_and_replica(occurrence.connection)
        return role, self.subscribers[replica].lifecycle

    def _watch(self, occurrence: Occurrence) -> bool:
        """Fit always, and remember what the next strike meets."""
        strikes = len(self.broker.strikes)
        del self._met[strikes:]
        self._met.append(self._state(occurrence))
        return True

    def _on_target(self, occurrence: Occurrence) -> bool:
        target = self.scenario.target
        self._watch(occurrence)
        return target is not None and self._met[-1] == (target.role, target.lifecycle)

    def _remember_strikes(self) -> None:
        self._struck = [
            Struck(strike, *met) for strike, met in zip(self.broker.strikes, self._met, strict=False)
        ]
        self.pinned = self.broker.pinned_faults

    def _evidence(self, unsettled: tuple[str, ...], left_behind: list[str]) -> Evidence:
        broker = self.broker
        kept = broker.queue(QUARANTINE).bodies if QUARANTINE in broker.queues else ()
        found = [letter_in(body) for body in kept]
        return Evidence(
            self.scenario,
            broker.trace,
            tuple(self.lives),
            tuple(self._struck),
            tuple(self._acts_done),
            unsettled,
            Counter(number for number in found if number is not None),
            tuple(left_behind),
            trio.current_time(),
        )
