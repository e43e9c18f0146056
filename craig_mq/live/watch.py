"""Knowing when nothing moves any more: which messages have not come to rest yet."""

# flake8: noqa: ASYNC910 - it waits only while something moves
from __future__ import annotations

from collections.abc import Mapping

import trio

from craig_mq.live.ack_loss import AckLoss
from craig_mq.live.handlers import Handlers
from craig_mq.observe.events import DeliveryFinished, Event, SessionDown
from craig_mq.review.events import Message


class Watch:
    """An observer of all four subscriptions. A message rests once it is quarantined, or acked for good."""

    def __init__(self, queues: Mapping[Message, str], handlers: Handlers, acks: AckLoss) -> None:
        self._messages: dict[str, Message] = {queue: message for message, queue in queues.items()}
        self._handlers = handlers
        self._acks = acks
        self._moving: set[Message] = set()
        self._changed = trio.Event()
        self.lost_but_written = 0

    def __call__(self, event: Event) -> None:
        """Observe one event of one subscription."""
        match event:
            case SessionDown(arm="main"):
                self._acks.heal()
            case DeliveryFinished(outcome="acked" | "quarantined") as finished:
                message = self._messages[event.queue]
                lost = finished.outcome == "acked" and self._handlers.courses[message].ack_lost
                self.lost_but_written += lost
                if not lost:
                    self._moving.discard(message)
                    self._changed.set()
            case _:
                pass

    def expect(self, *messages: Message) -> None:
        """These are about to move."""
        self._moving.update(messages)

    async def wait_at_rest(self) -> None:
        """Return once everything expected rests."""
        while self._moving:
            self._changed = trio.Event()
            await self._changed.wait()
