"""The broker node of the model: its settings, its clock, who is connected, what it saw."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from craig_mq.transport.memory.faults import FaultPlan, FaultRun
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.permissions import Guard, Permissions
from craig_mq.transport.memory.profiles import Profile
from craig_mq.transport.memory.timers import Timers
from craig_mq.transport.memory.trace import MessageDropped, TraceRecord
from craig_mq.transport.memory.vhost import Vhost

if TYPE_CHECKING:
    from craig_mq.transport.memory.served_connection import ServedConnection

CONSUMER_TIMEOUT_S = 1800.0
CHANNEL_TICK_S = 60.0


class Node:
    """One node with one virtual host."""

    def __init__(
        self,
        profile: Profile,
        *,
        faults: FaultPlan | None,
        trace: bool,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Start running, with nothing declared. ``wall_clock`` stamps ``x-death``."""
        self.profile = profile
        self.wall_clock = wall_clock
        self.timers = Timers()
        self.faults = None if faults is None else FaultRun(faults)
        self.trace: list[TraceRecord] | None = [] if trace else None
        self.user = "guest"
        self.guard: Guard | None = None
        self.running = True
        self.alarms: dict[str, None] = {}
        self.consumer_timeout: float | None = CONSUMER_TIMEOUT_S
        self.channel_tick = CHANNEL_TICK_S
        self.max_message_size = profile.max_message_size
        self.connection_limit: int | None = None
        self.connections: dict[ServedConnection, None] = {}
        self.vhost = Vhost(self)
        self._serials = itertools.count(1)
        self._connection_numbers = itertools.count(1)

    def inject(self, plan: FaultPlan | None) -> None:
        """Carry out another plan from now on."""
        self.faults = None if plan is None else FaultRun(plan)

    def now(self) -> float:
        """Trio's clock."""
        return trio.current_time()

    def next_serial(self) -> int:
        """Number a publish."""
        return next(self._serials)

    def next_connection(self) -> int:
        """Number a connection."""
        return next(self._connection_numbers)

    def set_permissions(self, permissions: Permissions | None) -> None:
        """Restrict the user from now on, or (None) no longer."""
        self.guard = (
            None if permissions is None else Guard(self.user, permissions, self.vhost.name, self.profile)
        )

    def set_alarm(self, resource: str, *, on: bool) -> None:
        """Raise or clear a resource alarm; clearing the last unblocks every connection (fact 7)."""
        if on:
            self.alarms[resource] = None
            return
        self.alarms.pop(resource, None)
        if not self.alarms:
            for connection in tuple(self.connections):
                connection.unblock("alarm")

    def note(self, record: TraceRecord) -> None:
        """Remember what was seen, if a trace is kept."""
        if self.trace is not None:
            self.trace.append(record)

    def note_dropped(self, message: Message, queue: str, why: str) -> None:
        """Remember that a queue gave a message up."""
        if self.trace is not None:
            self.trace.append(MessageDropped(self.now(), message.serial, queue, why))
