"""What happens to a node as a whole: crash, graceful stop, restart."""

from __future__ import annotations

from craig_mq.core.close import ConnectionClose, ConnectionLoss
from craig_mq.core.delivery import PERSISTENT
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.node import Node
from craig_mq.transport.memory.queue import MessageQueue
from craig_mq.transport.memory.requeueing import WayBack, requeue
from craig_mq.transport.memory.trace import MessageRequeued

_SHUTDOWN = ConnectionClose(
    320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
)


def crash(node: Node, *, returning_acks: int) -> None:
    """Die as by kill -9. Raises nothing; a node that is down stays down.

    Every connection breaks without a word. What is durable survives; up to ``returning_acks`` of each
    queue's last acked messages were not yet on disk and come back, and every message of a classic queue
    says ``redelivered`` from then on (rabbitmq-facts, 13). No confirmed persistent message is lost.
    """
    node.running = False
    for connection in tuple(node.connections):
        connection.end(ConnectionLoss("connection reset by peer"))
    node.alarms.clear()
    _lose_transient(node)
    for queue in node.vhost.queues.values():
        _bring_back_acked(node, queue, returning_acks)
        if not queue.limits.quorum:
            for message in queue.ready:
                message.redelivered = True


def stop(node: Node) -> None:
    """Stop as an operator would: connections are closed with 320, what was acked stays acked."""
    node.running = False
    for connection in tuple(node.connections):
        connection.end(_SHUTDOWN)
    node.alarms.clear()
    _lose_transient(node)


def start(node: Node) -> None:
    """Accept connections again, on the same data."""
    node.running = True


def _lose_transient(node: Node) -> None:
    vhost = node.vhost
    for queue in tuple(vhost.queues.values()):
        if not queue.spec.durable:
            vhost.delete_queue(queue.name, None)
            continue
        for message in [message for message in queue.ready if not _persistent(message, queue)]:
            queue.ready.remove(message)
            node.note_dropped(message, queue.name, "transient")
    vhost.exchanges = {name: exchange for name, exchange in vhost.exchanges.items() if exchange.durable}


def _persistent(message: Message, queue: MessageQueue) -> bool:
    return queue.limits.quorum or message.properties.delivery_mode == PERSISTENT


def _bring_back_acked(node: Node, queue: MessageQueue, count: int) -> None:
    returning = list(queue.acked)[-count:] if count else []
    queue.acked.clear()
    for message in returning:
        node.note(MessageRequeued(node.now(), 0, message.serial, queue.name))
    requeue(queue, returning, WayBack.ENDED, every_return=False)
