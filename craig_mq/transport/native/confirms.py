"""Which publishes of a channel are in flight, and what each confirm or return says about them.

The order of registration is the order of frames, so a publish is registered before its frame is
written; nothing but its own confirm can ever make it ``Acked``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from craig_mq.core.outcome import ACKED, NACKED, Confirmation, Returned, Unconfirmed
from craig_mq.transport.native.wire import ProtocolViolation

Told = Callable[[Confirmation], None]


class PublishInFlight(msgspec.Struct, eq=False):
    """One publish. ``told`` hears its outcome; None once it has, or where nobody wants to any more."""

    message_id: str | None
    told: Told | None


class ConfirmLedger:
    """Publishes in flight on one channel, by the tag their confirm will carry."""

    __slots__ = ("_last", "_pending")

    def __init__(self) -> None:
        """Confirm mode counts from 1."""
        self._pending: dict[int, PublishInFlight] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._pending)

    def register(self, publish: PublishInFlight) -> None:
        """Give the next tag to ``publish``."""
        self._last += 1
        self._pending[self._last] = publish

    def confirm(self, delivery_tag: int, *, multiple: bool, positive: bool) -> None:
        """Apply basic.ack or basic.nack. Raises ProtocolViolation for a tag that is not in flight.

        Such a tag means that the two sides count differently, so no later confirm could be
        believed either (field failure CONF-10). Tag 0, "all so far" for consumers, is none that a
        broker confirms.
        """
        outcome: Confirmation = ACKED if positive else NACKED
        if not multiple:
            publish = self._pending.pop(delivery_tag, None)
            if publish is None:
                raise ProtocolViolation(f"a confirm for tag {delivery_tag}, which is not in flight")
            _tell(publish, outcome)
            return
        if not 0 < delivery_tag <= self._last:
            raise ProtocolViolation(f"a confirm up to tag {delivery_tag}, which was never sent")
        covered: list[int] = []
        for tag in self._pending:
            if tag > delivery_tag:
                break
            covered.append(tag)
        for tag in covered:
            _tell(self._pending.pop(tag), outcome)

    def returned(self, message_id: str | None, code: int, text: str) -> None:
        """Apply basic.return: every publish in flight under that id was returned.

        Two under one id cannot be told apart, so both fail (RET-01). A return that matches nothing
        fails every publish in flight (decisions, 15). The confirm that follows changes nothing.
        """
        matched = [
            publish
            for publish in self._pending.values()
            if message_id is not None and publish.message_id == message_id
        ]
        for publish in matched:
            _tell(publish, Returned(code, text))
        if not matched:
            unknown = Unconfirmed("a message was returned that no publish in flight can be matched to")
            for publish in list(self._pending.values()):
                _tell(publish, unknown)

    def fail(self, reason: str) -> None:
        """Resolve everything in flight as unknown: the channel has ended."""
        pending, self._pending = self._pending, {}
        for publish in pending.values():
            _tell(publish, Unconfirmed(reason))


def _tell(publish: PublishInFlight, confirmation: Confirmation) -> None:
    """Resolve a publish, once; later reports about it change nothing."""
    told = publish.told
    if told is not None:
        publish.told = None
        told(confirmation)
