"""Everything the parts of one subscription share, validated and frozen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import attrs

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.topology import Topology
from craig_mq.runtime.reporting import Reporter
from craig_mq.runtime.sources import Sources
from craig_mq.runtime.start_gate import StartGate
from craig_mq.runtime.statistics import Tally
from craig_mq.transport.broker import Broker, ConnectionOptions

Handler: TypeAlias = Callable[[DeadLetter], Awaitable[None]]
"""Returns once the dead letter is dealt with, or raises ``DlqError`` to choose a disposition."""


class SessionTally(Protocol):
    """The counters that sessions of every kind keep."""

    sessions: int
    settlement_failures: int
    invocations: int


class SessionPlan(Protocol):
    """What a session needs to know, whatever kind of queue it works on."""

    @property
    def broker(self) -> Broker:
        """Where to connect."""
        ...

    @property
    def queue(self) -> str:
        """The queue it is about."""
        ...

    @property
    def options(self) -> SubscriptionOptions:
        """How it runs."""
        ...

    @property
    def topology(self) -> Topology:
        """What is declared at its start."""
        ...

    @property
    def sources(self) -> Sources:
        """Wall clock, identifiers and chance."""
        ...

    @property
    def reporter(self) -> Reporter:
        """Whom to tell."""
        ...

    @property
    def gate(self) -> StartGate:
        """What the first start waits for."""
        ...

    @property
    def tally(self) -> SessionTally:
        """The counters."""
        ...


@attrs.define(frozen=True, slots=True, eq=False)
class Plan:
    """One subscription to a dead-letter queue: where, what, how, and whom to tell."""

    broker: Broker
    queue: str
    binding_keys: tuple[str, ...]
    handler: Handler
    config: DlqRetryConfig
    options: SubscriptionOptions
    topology: Topology
    sources: Sources
    reporter: Reporter
    gate: StartGate
    tally: Tally
    is_canonical: Callable[[str], bool]


def connection_options(plan: SessionPlan, role: str) -> ConnectionOptions:
    """Return connection options whose name tells an operator which part of which queue this is."""
    options = plan.options
    return ConnectionOptions(
        name=f"craig_mq {plan.queue} {role}",
        connect_timeout=options.connect_timeout.total_seconds(),
        rpc_timeout=options.rpc_timeout.total_seconds(),
        heartbeat=max(1, round(options.heartbeat.total_seconds())),
    )
