"""Drawing faults: every action an operation can meet, with numbers that matter."""

from __future__ import annotations

import random
from collections.abc import Callable

from craig_mq.transport.memory import (
    Block,
    CloseChannel,
    CloseConnection,
    Delay,
    Drop,
    Duplicate,
    Fault,
    Hang,
    LateSuccess,
    LoseConnection,
    Nack,
    Operation,
    Raise,
    Reorder,
    Return,
)
from craig_mq.transport.memory.fault_actions import POSSIBLE, Action

_SECONDS = (0.05, 0.7, 4.0)
_CHANNEL_ERRORS = (
    (404, "NOT_FOUND - no exchange 'craig.dlx' in vhost '/'", 60, 40),
    (403, "ACCESS_REFUSED - refused", 0, 0),
    (406, "PRECONDITION_FAILED - inequivalent arg", 50, 10),
    (406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out", 0, 0),
)

MAKERS: dict[type[Action], Callable[[random.Random], Action]] = {
    Delay: lambda chance: Delay(chance.choice(_SECONDS)),
    Drop: lambda _: Drop(),
    Duplicate: lambda _: Duplicate(),
    Reorder: lambda _: Reorder(),
    Raise: lambda _: Raise(),
    CloseChannel: lambda chance: CloseChannel(*chance.choice(_CHANNEL_ERRORS)),
    CloseConnection: lambda _: CloseConnection(320, "CONNECTION_FORCED - simulated"),
    LoseConnection: lambda _: LoseConnection(),
    Block: lambda chance: Block(chance.choice(_SECONDS)),
    Nack: lambda _: Nack(),
    Return: lambda _: Return(),
    Hang: lambda _: Hang(),
    LateSuccess: lambda chance: LateSuccess(chance.choice(_SECONDS)),
}

PAIRS: tuple[tuple[Operation, type[Action]], ...] = tuple(
    (operation, action)
    for operation in Operation
    for action in sorted(POSSIBLE[operation], key=lambda kind: kind.__name__)
)

_WEIGHTED = tuple(
    operation
    for operation, weight in {
        Operation.CONNECT: 2,
        Operation.OPEN_CHANNEL: 1,
        Operation.DECLARE: 1,
        Operation.BIND: 1,
        Operation.CONSUME: 2,
        Operation.DELIVER: 4,
        Operation.PUBLISH: 5,
        Operation.CONFIRM: 5,
        Operation.ACK: 5,
        Operation.NACK: 2,
        Operation.FLUSH: 4,
        Operation.CANCEL: 1,
        Operation.CLOSE: 1,
    }.items()
    for _ in range(weight)
)
_LAST_INDEX = {Operation.CONNECT: 8, Operation.DELIVER: 40, Operation.ACK: 40, Operation.FLUSH: 20}


def draw_fault(chance: random.Random) -> Fault:
    """Return a fault that will probably strike: an operation a run performs, early enough."""
    operation = chance.choice(_WEIGHTED)
    action = make(
        chance, operation, chance.choice(sorted(POSSIBLE[operation], key=lambda kind: kind.__name__))
    )
    if chance.random() < 0.3:  # noqa: PLR2004
        return Fault(operation, action, probability=0.2, times=chance.randint(1, 4))
    return Fault(operation, action, index=chance.randint(0, _LAST_INDEX.get(operation, 10)))


def draw_disturbance(chance: random.Random) -> Fault:
    """Return a fault that strikes several times and that a session survives."""
    operation = chance.choice((Operation.DELIVER, Operation.PUBLISH, Operation.CONFIRM, Operation.FLUSH))
    mild = [kind for kind in (Delay, LateSuccess, Duplicate) if kind in POSSIBLE[operation]]
    action = make(chance, operation, chance.choice(mild))
    return Fault(operation, action, probability=0.3, times=chance.randint(1, 3))


def make(chance: random.Random, operation: Operation, kind: type[Action]) -> Action:
    """Return an action of a kind; ``operation`` must be able to meet it."""
    if kind not in POSSIBLE[operation]:
        raise ValueError(f"{operation.value} cannot meet {kind.__name__}")
    return MAKERS[kind](chance)
