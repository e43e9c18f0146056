"""Publishing on a channel in confirm mode: mandatory, persistent, confirmed; nothing else is offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import outcome
import trio

from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Confirmation, Unconfirmed
from craig_mq.transport.native import methods, requests
from craig_mq.transport.native.calls import ChannelCalls, Link
from craig_mq.transport.native.confirms import ConfirmLedger, PublishInFlight
from craig_mq.transport.native.events import Confirmed, MessageReturned
from craig_mq.transport.native.fields import encode_short
from craig_mq.transport.native.properties import encode_header
from craig_mq.transport.native.wire import ProtocolViolation

_ROUTES_MAX: Final = 256


class PublishingChannel(ChannelCalls):
    """The publishing half of a channel."""

    def __init__(self, link: Link, number: int) -> None:
        """Not in confirm mode yet."""
        super().__init__(link, number)
        self._confirms: ConfirmLedger | None = None
        self._routes: dict[tuple[str, str], bytes] = {}

    async def _select_confirms(self) -> None:
        """Switch to confirm mode. Raises ClosedError or OperationTimedOut."""
        await self._call(requests.select_confirms())
        self._confirms = ConfirmLedger()

    def on_confirmed(self, event: Confirmed) -> None:
        """Apply a confirm."""
        if self._confirms is None:
            raise ProtocolViolation("a confirm on a channel that is not in confirm mode")
        self._confirms.confirm(event.delivery_tag, multiple=event.multiple, positive=event.positive)

    def on_returned(self, event: MessageReturned) -> None:
        """Apply a return."""
        if self._confirms is not None:
            self._confirms.returned(event.message_id, event.code, event.text)

    async def publish(self, publication: Publication) -> Confirmation:
        """See the protocol.

        Raises ValueError for names or properties the wire cannot hold; nothing was sent then.
        """
        if self._writer.congested:
            await self._writer.wait_room()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None:
            return Unconfirmed(str(self._closed), sent=False)
        task = trio.lowlevel.current_task()
        publish = PublishInFlight(
            publication.properties.message_id,
            lambda confirmation: trio.lowlevel.reschedule(task, outcome.Value(confirmation)),
        )
        unsendable = self._send_publish(publication, publish)
        if unsendable is not None:
            return Unconfirmed(unsendable, sent=False)

        def leave(_: object) -> trio.lowlevel.Abort:
            publish.told = None
            return trio.lowlevel.Abort.SUCCEEDED

        confirmation: Confirmation = await trio.lowlevel.wait_task_rescheduled(leave)
        return confirmation

    def publish_nowait(self, publication: Publication, told: Callable[[Confirmation], None]) -> bool:
        """See the protocol. Raises ValueError as ``publish`` does."""
        if self._closed is not None or self._writer.congested:
            return False
        publish = PublishInFlight(publication.properties.message_id, told)
        return self._send_publish(publication, publish) is None

    def _send_publish(self, publication: Publication, publish: PublishInFlight) -> str | None:
        """Register a publish, then accept its frames; or say why no frames can carry it."""
        if self._confirms is None:
            raise ValueError("publish needs a channel opened with confirms=True")
        body = publication.body
        route = self._route(publication.exchange, publication.routing_key)
        header = encode_header(publication.properties, len(body))
        payload_max = self._protocol.payload_max
        if len(header) > payload_max:
            return f"a content header of {len(header)} bytes exceeds a frame"
        alone = not self._confirms
        self._confirms.register(publish)
        if len(body) <= payload_max:
            frames = methods.encode_small_content(self.number, route, header, body)
            self._protocol.outbox.put(frames, prompt=alone)
        else:
            self._protocol.outbox.put_all(
                methods.encode_large_content(self.number, route, header, body, payload_max)
            )
        return None

    def _route(self, exchange: str, routing_key: str) -> bytes:
        """Return the publish frame for a route, from a bounded memory."""
        route = self._routes.get((exchange, routing_key))
        if route is None:
            if len(self._routes) >= _ROUTES_MAX:
                self._routes.clear()
            route = methods.encode_publish(self.number, encode_short(exchange), encode_short(routing_key))
            self._routes[exchange, routing_key] = route
        return route
