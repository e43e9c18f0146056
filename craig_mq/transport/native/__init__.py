"""The native transport: AMQP 0-9-1 on Trio streams.

A sans-I/O core (``wire``, ``fields``, ``properties``, ``methods``, ``content``, ``handshake``,
``protocol``: bytes in, events out; ``confirms``, ``acks``, ``replies``: what they mean) under a thin
shell (``dial``, ``stream``, ``connection``, ``channel``, ``consumer``).
"""

from craig_mq.transport.native.broker import NativeBroker

__all__ = ["NativeBroker"]
