"""What one simulated run consists of: plain data, printable as Python that rebuilds it."""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

import attrs

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.transport.memory import Fault, FaultPlan

Shape: TypeAlias = Literal["tokened", "tokenless", "malformed", "stray", "large"]
Behaviour: TypeAlias = Literal["ok", "slow", "retry", "park", "late park", "permanent", "crash", "hang"]
Lifecycle: TypeAlias = Literal["starting", "running", "draining"]

QUEUE = "sim.dlq"
PARKING = QUEUE + ".parking"
QUARANTINE = QUEUE + ".quarantine"
ROLES = (
    "depth",
    "parking",
    "parking permission",
    "parking publishing",
    "main",
    "main permission",
    "main publishing",
)


def connection_name(role: str, replica: int = 0) -> str:
    """Name a replica's connection: the runtime's own name for the first, marked for the others."""
    return f"craig_mq {QUEUE} {role}{f' @{replica}' if replica else ''}"


@cache
def role_and_replica(name: str) -> tuple[str, int]:
    """Return what ``connection_name`` was given."""
    role, _, replica = name.removeprefix(f"craig_mq {QUEUE} ").partition(" @")
    return role, int(replica or 0)


@attrs.define(frozen=True, slots=True)
class Letter:
    """One dead letter, published ``at`` seconds after the start.

    ``shape``: how it looks; a *stray* has a routing key that cannot be parked, a *large* one does not
    fit into a capture. ``behaviours``: what the handler does at each invocation, in order; after the
    last it succeeds, unless ``poison`` makes the last one repeat for ever.
    """

    at: float
    shape: Shape = "tokened"
    behaviours: tuple[Behaviour, ...] = ()
    poison: bool = False

    def behaviour(self, invocation: int) -> Behaviour:
        """Return what invocation ``invocation`` (0-based, over all receipts) does."""
        if invocation < len(self.behaviours):
            return self.behaviours[invocation]
        return self.behaviours[-1] if self.poison and self.behaviours else "ok"


@attrs.define(frozen=True, slots=True)
class Replica:
    """One subscriber process: it starts ``at`` seconds after the start and comes back when it ends."""

    at: float
    config: DlqRetryConfig
    options: SubscriptionOptions


@attrs.define(frozen=True, slots=True)
class Act:
    """What an operator does ``at`` seconds after the start; ``kind`` says what ``argument`` means."""

    at: float
    kind: str
    argument: float = 0.0


@attrs.define(frozen=True, slots=True)
class Target:
    """A fault that must meet one role of a subscription in one part of its life."""

    fault: Fault
    role: str
    lifecycle: Lifecycle


@attrs.define(frozen=True, slots=True)
class Scenario:
    """One run is a function of this alone. ``seed`` seeds scheduler, identifiers and jitter, too."""

    seed: int
    profile: str
    replicas: tuple[Replica, ...]
    letters: tuple[Letter, ...]
    acts: tuple[Act, ...]
    faults: FaultPlan
    target: Target | None = None
    calm_after: float = 25.0
    max_message_size: int | None = None
