"""Where messages go that come back to their queue."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING

from craig_mq.transport.memory.message import Message

if TYPE_CHECKING:
    from craig_mq.transport.memory.queue import MessageQueue

# Ranks of what came back to a quorum queue: before everything that did not.
_RETURNED = -1_000


class WayBack(enum.Enum):
    """How a delivery came back: refused, with a channel or consumer that ended, or with a lost session."""

    REFUSED = "refused"
    ENDED = "ended"
    LOST = "lost"


def requeue(queue: MessageQueue, messages: Iterable[Message], way: WayBack, *, every_return: bool) -> None:
    """Put messages back, oldest first, then hand out what can be.

    A classic queue puts each back at its original place (rabbitmq-facts, 15). A quorum queue counts the
    return (``every_return``, or only lost sessions) and gives up what is over its limit; the others come
    before everything else, in the order they came back, but what was *refused* goes to the tail if there
    is no limit (rabbitmq-facts, 2; seen on 3.10.8).
    """
    ordered = sorted(messages, key=lambda message: message.rank)
    for message in ordered:
        message.redelivered = True
    if not queue.limits.quorum:
        for message in reversed(ordered):
            queue.insert(message)
    else:
        counts = every_return or way is WayBack.LOST
        kept = [message for message in ordered if _survives(queue, message, counts=counts)]
        _requeue_quorum(queue, kept, to_tail=way is WayBack.REFUSED and not queue.limits.returns_to_head)
    queue.drop_surplus()
    queue.dispatch()


def _requeue_quorum(queue: MessageQueue, messages: list[Message], *, to_tail: bool) -> None:
    if to_tail:
        # The refusal frees its consumer first; the message is written again behind it, in the same step: no
        # room that this made for a moment lets a queue take publishes again (seen on 3.10.8).
        queue.hand_out()
    for message in messages:
        if to_tail:
            queue.append(message)
        else:
            message.rank = (_RETURNED, queue.next_position())
            queue.insert(message)


def _survives(queue: MessageQueue, message: Message, *, counts: bool) -> bool:
    message.delivery_count += counts
    limit = queue.limits.delivery_limit
    if limit is None or message.delivery_count <= limit:
        return True
    queue.vhost.dead_letter(queue, message, "delivery_limit")
    return False
