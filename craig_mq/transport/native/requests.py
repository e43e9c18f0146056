"""Requests as data: which method to send and which answer it gets."""

from __future__ import annotations

import attrs
from pamqp import base, commands

from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec


@attrs.define(frozen=True, slots=True)
class Call:
    """A synchronous method and the type of its answer."""

    method: base.Frame
    answer: type[base.Frame]


def declare_exchange(exchange: ExchangeSpec, *, passive: bool) -> Call:
    """exchange.declare."""
    return Call(
        commands.Exchange.Declare(
            exchange=exchange.name,
            exchange_type=exchange.kind,
            passive=passive,
            durable=exchange.durable,
            arguments=dict(exchange.arguments),  # type: ignore[arg-type]  # values are field values
        ),
        commands.Exchange.DeclareOk,
    )


def declare_queue(queue: QueueSpec, *, passive: bool) -> Call:
    """queue.declare."""
    return Call(
        commands.Queue.Declare(
            queue=queue.name,
            passive=passive,
            durable=queue.durable,
            exclusive=queue.exclusive,
            auto_delete=queue.auto_delete,
            arguments=dict(queue.arguments),  # type: ignore[arg-type]  # values are field values
        ),
        commands.Queue.DeclareOk,
    )


def delete_queue(queue: str) -> Call:
    """queue.delete, whatever the queue holds."""
    return Call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)


def purge_queue(queue: str) -> Call:
    """queue.purge."""
    return Call(commands.Queue.Purge(queue=queue), commands.Queue.PurgeOk)


def bind_queue(binding: BindingSpec) -> Call:
    """queue.bind."""
    return Call(
        commands.Queue.Bind(
            queue=binding.queue, exchange=binding.exchange, routing_key=binding.routing_key, arguments={}
        ),
        commands.Queue.BindOk,
    )


def unbind_queue(binding: BindingSpec) -> Call:
    """queue.unbind."""
    return Call(
        commands.Queue.Unbind(
            queue=binding.queue, exchange=binding.exchange, routing_key=binding.routing_key, arguments={}
        ),
        commands.Queue.UnbindOk,
    )


def limit_prefetch(prefetch: int) -> Call:
    """basic.qos for the consumers started after it."""
    return Call(commands.Basic.Qos(0, prefetch, False), commands.Basic.QosOk)


def consume(queue: str, tag: str, *, exclusive: bool) -> Call:
    """basic.consume with manual acks."""
    return Call(
        commands.Basic.Consume(queue=queue, consumer_tag=tag, exclusive=exclusive, arguments={}),
        commands.Basic.ConsumeOk,
    )


def cancel(tag: str) -> Call:
    """basic.cancel."""
    return Call(commands.Basic.Cancel(tag), commands.Basic.CancelOk)


def select_confirms() -> Call:
    """confirm.select."""
    return Call(commands.Confirm.Select(), commands.Confirm.SelectOk)
