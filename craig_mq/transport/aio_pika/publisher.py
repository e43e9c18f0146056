"""Publishing with confirms, and what each answer means."""

# flake8: noqa: ASYNC910 - everything here runs in asyncio, which has no checkpoints
from __future__ import annotations

import asyncio
import struct

import aiormq.abc
import attrs
import pamqp.frame
from aiormq.exceptions import DeliveryError, PublishError
from pamqp import commands
from pamqp.header import ContentHeader

from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import ACKED, NACKED, Confirmation, Returned, Unconfirmed
from craig_mq.transport.aio_pika.conversion import from_properties
from craig_mq.transport.aio_pika.wire import Watched

_CODEC_ERRORS = (ValueError, TypeError, ArithmeticError, struct.error)


@attrs.define(slots=True, eq=False)
class _InFlight:
    returned: Returned | None = None
    doubt: str | None = None
    over: asyncio.Event = attrs.field(factory=asyncio.Event)


class Publisher:
    """The publishes of one channel. Everything here runs in the loop.

    A ``basic.return`` carries no delivery tag. It is matched by message id here, not by aiormq, whose
    table forgets the first of two publishes with one id (field failure RET-01); such publishes go
    one after the other. A return that matches nothing puts every publish in flight in doubt.
    """

    def __init__(self, amqp: aiormq.abc.AbstractChannel) -> None:
        self._amqp = amqp
        self._in_flight: dict[str, _InFlight] = {}
        self._return: commands.Basic.Return | None = None

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish mandatory, and say what the broker said. Only a lone ``basic.ack`` is Acked."""
        try:
            properties = _encodable(publication)
        except _CODEC_ERRORS as error:
            return Unconfirmed(f"not encodable: {error}", sent=False)
        if not properties.message_id:
            return Unconfirmed("no message id: a return could not be matched", sent=False)
        while (earlier := self._in_flight.get(properties.message_id)) is not None:
            await earlier.over.wait()
        mine = self._in_flight[properties.message_id] = _InFlight()
        try:
            answer = await self._confirmation(publication, properties)
        finally:
            del self._in_flight[properties.message_id]
            mine.over.set()
        if mine.doubt is not None:
            return Unconfirmed(mine.doubt)
        return mine.returned or answer

    async def _confirmation(
        self, publication: Publication, properties: commands.Basic.Properties
    ) -> Confirmation:
        try:
            answer = await self._amqp.basic_publish(
                publication.body,
                exchange=publication.exchange,
                routing_key=publication.routing_key,
                properties=properties,
                mandatory=True,
            )
        except PublishError as error:
            return _returned(error.frame)
        except DeliveryError as error:
            return NACKED if isinstance(error.frame, commands.Basic.Nack) else Unconfirmed(str(error))
        match answer:
            case commands.Basic.Ack():
                return ACKED
            case commands.Basic.Nack():
                return NACKED
            case _:
                return _returned(getattr(answer, "delivery", answer))

    def on_return_frame(self, frame: Watched) -> None:
        """See a ``basic.return``, then the header that names the message."""
        if isinstance(frame, commands.Basic.Return):
            self._return = frame
        elif isinstance(frame, ContentHeader) and self._return is not None:
            returned, self._return = self._return, None
            mine = self._in_flight.get(frame.properties.message_id or "")
            if mine is not None:
                mine.returned = Returned(returned.reply_code or 0, returned.reply_text)
                return
            for doubted in self._in_flight.values():
                doubted.doubt = "a returned message matched no publish in flight"


def _encodable(publication: Publication) -> commands.Basic.Properties:
    """Encode once for the errors alone: here they prove that not a byte was written."""
    properties = from_properties(publication.properties)
    pamqp.frame.marshal(commands.Basic.Publish(0, publication.exchange, publication.routing_key), 1)
    pamqp.frame.marshal(ContentHeader(properties=properties), 1)
    return properties


def _returned(frame: object) -> Confirmation:
    """Read a return; anything else in its place is no evidence of anything (field failure RET-02)."""
    if isinstance(frame, commands.Basic.Return):
        return Returned(frame.reply_code or 0, frame.reply_text)
    return Unconfirmed(f"unexpected answer to a publish: {type(frame).__name__}")
