"""How RabbitMQ says no: channel closes with its own codes, texts and method ids."""

from __future__ import annotations

from typing import Final

from craig_mq.core.close import ChannelClose, ConnectionClose

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


class Refused(Exception):
    """Raised in the model where RabbitMQ closes the channel or connection; never reaches a caller."""

    def __init__(self, reason: ChannelClose | ConnectionClose) -> None:
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


def delivery_timed_out(channel: int, timeout_s: float) -> ChannelClose:
    """Word the end of a channel that held a delivery for longer than consumer_timeout (fact 1)."""
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. Timeout value used: "
        f"{round(timeout_s * 1000)} ms. This timeout value can be configured, see consumers doc guide to "
        "learn more"
    )
    return ChannelClose(406, text)


def consumer_tag_reused(tag: str) -> Refused:
    """A duplicate consumer tag is an error of the connection (rabbitmq-facts, 16)."""
    return Refused(
        ConnectionClose(530, f"NOT_ALLOWED - attempt to reuse consumer tag '{tag}'", *BASIC_CONSUME)
    )


def frame_too_large(size: int, frame_max: int) -> Refused:
    """Headers beyond one frame are an error of the connection (rabbitmq-facts, 8 and 17)."""
    return Refused(
        ConnectionClose(
            501, f"FRAME_ERROR - type 2, frame too large: {{frame_too_large,{size},{frame_max - 8}}}"
        )
    )


def deprecated_feature(text: str, method: Method) -> Refused:
    """4.3 refuses what earlier versions only advised against (rabbitmq-facts, 18)."""
    return Refused(ConnectionClose(541, f"INTERNAL_ERROR - {text}", *method))
