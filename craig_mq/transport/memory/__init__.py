"""An in-process model of RabbitMQ: the embedded broker, and the one that faults are injected into.

``broker`` is the way in. The client's half (``connection``, ``channel``, ``consumer``) satisfies the
protocols of ``craig_mq.transport.broker``; the broker's half (``node``, ``queue``, ``exchange``,
``served_connection``, ``served_channel``) is synchronous: an operation takes effect when it is
accepted, in the order of its connection, unless the broker does not read from that connection.
"""

from craig_mq.transport.memory.broker import MemoryBroker
from craig_mq.transport.memory.fault_actions import (
    Block,
    CloseChannel,
    CloseConnection,
    Delay,
    Drop,
    Duplicate,
    Hang,
    LateSuccess,
    LoseConnection,
    Nack,
    Operation,
    Raise,
    Reorder,
    Return,
)
from craig_mq.transport.memory.faults import Fault, FaultPlan, Occurrence
from craig_mq.transport.memory.limits import Policy

__all__ = [
    "Block",
    "CloseChannel",
    "CloseConnection",
    "Delay",
    "Drop",
    "Duplicate",
    "Fault",
    "FaultPlan",
    "Hang",
    "LateSuccess",
    "LoseConnection",
    "MemoryBroker",
    "Nack",
    "Occurrence",
    "Operation",
    "Policy",
    "Raise",
    "Reorder",
    "Return",
]
