"""How RabbitMQ says no: channel closes with its own codes, texts and method ids."""

from __future__ import annotations

from typing import Final

from craig_mq.core.close import ChannelClose

EXCHANGE_DECLARE: Final = (40, 10)
QUEUE_DECLARE: Final = (50, 10)
QUEUE_BIND: Final = (50, 20)
QUEUE_PURGE: Final = (50, 30)
QUEUE_DELETE: Final = (50, 40)
QUEUE_UNBIND: Final = (50, 50)
BASIC_CONSUME: Final = (60, 20)
BASIC_PUBLISH: Final = (60, 40)
BASIC_GET: Final = (60, 70)
BASIC_ACK: Final = (60, 80)
BASIC_REJECT: Final = (60, 90)
BASIC_NACK: Final = (60, 120)

Method = tuple[int, int]


class Refused(Exception):  # noqa: N818 - a refusal is the broker's answer, not a failure of the model
    """Raised inside the model where RabbitMQ would close the channel; never reaches a caller."""

    def __init__(self, reason: ChannelClose) -> None:
        """Carry the close that the channel will end with."""
        super().__init__(reason.text)
        self.reason = reason


def not_found(what: str, name: str, vhost: str, method: Method) -> Refused:
    """No such ``queue`` or ``exchange``."""
    return Refused(ChannelClose(404, f"NOT_FOUND - no {what} '{name}' in vhost '{vhost}'", *method))


def precondition_failed(text: str, method: Method) -> Refused:
    """A 406 with RabbitMQ's text after the prefix."""
    return Refused(ChannelClose(406, f"PRECONDITION_FAILED - {text}", *method))


def access_refused(text: str, method: Method) -> Refused:
    """A 403 with RabbitMQ's text after the prefix."""
    return Refused(ChannelClose(403, f"ACCESS_REFUSED - {text}", *method))


def resource_locked(queue: str, vhost: str, method: Method) -> Refused:
    """Another connection owns the exclusive queue."""
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. "
        "It could be originally declared on another connection or the exclusive property value does not "
        "match that of the original declaration."
    )
    return Refused(ChannelClose(405, text, *method))


def unknown_delivery_tag(tag: int, method: Method) -> Refused:
    """A settlement of something that is not outstanding on its channel (rabbitmq-facts, 16)."""
    return precondition_failed(f"unknown delivery tag {tag}", method)
