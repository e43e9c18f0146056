"""One simulated subscriber process: the real runtime, restarted whenever it ends, everything heard."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING

import attrs
import trio

from craig_mq.core.capture_format import uuid7
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.observe.events import Event
from craig_mq.runtime.errors import SubscribeDlqError
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.sources import Sources
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.testing.simulate.evidence import Life
from craig_mq.testing.simulate.letters import letter_in
from craig_mq.testing.simulate.notes import Committed, Dialled, Invoked, Returned, ShutdownAsked
from craig_mq.testing.simulate.scenario import (
    QUEUE,
    Behaviour,
    Lifecycle,
    Replica,
    connection_name,
    role_and_replica,
)
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory.connection import MemoryConnection

if TYPE_CHECKING:
    from craig_mq.testing.simulate.world import World

RESTART_PAUSE_S = 0.5
_DISPOSITIONS: dict[Behaviour, Disposition] = {
    "retry": Disposition.TRANSIENT_RETRY,
    "park": Disposition.TRANSIENT_PARK,
    "late park": Disposition.TRANSIENT_PARK,
    "permanent": Disposition.PERMANENT,
}


class Subscriber:
    """One replica of the subscription. It implements ``Broker`` and ``TaskStatus`` for its own runtime."""

    display_url = "memory://"

    def __init__(self, world: World, number: int, replica: Replica) -> None:
        self._world = world
        self._number = number
        self._replica = replica
        self._handle: DlqSubscription | None = None
        self._scope = trio.CancelScope()
        self._events: list[tuple[float, Event]] = []
        self.ended = trio.Event()
        self.handling = 0
        self.open_roles: list[str] = []
        self.lifecycle: Lifecycle = "starting"

    # --- its life ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live, end, live again, until the world closes."""
        world = self._world
        await trio.sleep(self._replica.at)
        while not world.closing:
            self.lifecycle, self._handle, self._events = "starting", None, []
            crash = None
            with trio.CancelScope() as self._scope:  # noqa: ASYNC912 - subscribing is the cancel point
                try:
                    await self._subscribe()
                except SubscribeDlqError:
                    pass  # refused at its first start: whoever supervises processes starts it again
                except Exception as error:  # noqa: BLE001 - the checkers judge what ended it
                    crash = repr(error)
            world.lives.append(Life(self._number, tuple(self._events), crash))
            if not world.closing:
                await trio.sleep(RESTART_PAUSE_S)
        self.ended.set()

    def shutdown(self) -> None:
        """Ask for a graceful end; what has not started yet is cancelled."""
        if self._handle is None:
            self.cancel()
        else:
            self.lifecycle = "draining"
            self._world.broker.note(ShutdownAsked(self._number))
            self._handle.shutdown()

    def cancel(self) -> None:
        """End it now."""
        self._scope.cancel(reason="the simulated operator")

    async def _subscribe(self) -> None:
        world = self._world
        await subscribe_dlq(
            self,
            queue=QUEUE,
            handler=self._handle_letter,
            config=self._replica.config,
            options=self._replica.options,
            observer=self._observe,
            sources=Sources(world.wall, self._uuid7, world.chance.random, monotonic=None),
            task_status=self,
        )

    def started(self, value: DlqSubscription | None = None) -> None:
        """Take the handle, as ``nursery.start`` would."""
        self._handle = value
        self.lifecycle = "running"

    def _observe(self, event: Event) -> None:
        self._events.append((trio.current_time(), event))

    def _uuid7(self) -> str:
        world = self._world
        return uuid7(int(world.wall() * 1000), world.chance.getrandbits(74))

    # --- its connections --------------------------------------------------------------------------

    def connect(self, options: ConnectionOptions) -> AbstractAsyncContextManager[MemoryConnection]:
        """Connect, noting what else is still connected at that moment."""
        role, _ = role_and_replica(options.name)
        self._world.broker.note(Dialled(self._number, role, tuple(self.open_roles), self.handling))
        named = attrs.evolve(options, name=connection_name(role, self._number)) if self._number else options
        return _Watched(self, role, self._world.broker.connect(named))

    # --- its handler ------------------------------------------------------------------------------

    async def _handle_letter(self, letter: DeadLetter) -> None:
        world = self._world
        number = letter_in(letter.body)
        if number is None:
            raise AssertionError("a letter that nobody sent")
        intact = letter.body == world.bodies[number]
        world.broker.note(Invoked(self._number, number, letter.attempt, letter.park_count, intact))
        self.handling += 1
        try:
            await self._behave(number)
        finally:
            self.handling -= 1

    async def _behave(self, number: int) -> None:
        world = self._world
        behaviour = world.next_behaviour(number)
        if behaviour == "hang":
            await trio.sleep_forever()
        if behaviour == "late park":
            await trio.sleep(0.3)
        if behaviour in _DISPOSITIONS:
            raise DlqError(_DISPOSITIONS[behaviour], source=ValueError("simulated"))
        if behaviour == "crash":
            raise RuntimeError("simulated")
        await trio.sleep(0.3 if behaviour == "slow" else 0)
        world.broker.note(Committed(self._number, number))
        if behaviour == "slow":
            await trio.sleep(0.1)
        world.broker.note(Returned(self._number, number))


class _Watched:
    """A connection's block, counted among its subscriber's open roles while inside."""

    def __init__(
        self, subscriber: Subscriber, role: str, block: AbstractAsyncContextManager[MemoryConnection]
    ) -> None:
        self._subscriber = subscriber
        self._role = role
        self._block = block

    async def __aenter__(self) -> MemoryConnection:
        connection = await self._block.__aenter__()
        self._subscriber.open_roles.append(self._role)
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._block.__aexit__(kind, error, trace)  # noqa: ASYNC102 - the transport's own, bounded there
        finally:
            self._subscriber.open_roles.remove(self._role)
