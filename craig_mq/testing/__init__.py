"""Public test kit: brokers to break, deliveries to build, faults to plan."""

from craig_mq.transport.memory import MemoryBroker

__all__ = ["MemoryBroker"]
