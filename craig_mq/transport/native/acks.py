"""Acks accepted one by one and written as few frames as is safe.

Only the contiguous prefix is coalesced: one ``multiple`` ack may name tag n only if every delivery
up to n that is still outstanding was acked here, and n itself is outstanding at the broker
(rabbitmq-facts, 16). Nothing accepted is held beyond the batch it belongs to.
"""

from __future__ import annotations

from bisect import bisect_left

from craig_mq.transport.native.methods import encode_ack, encode_nack


class AckCoalescer:
    """The deliveries of one channel that are not settled, and the acks not yet written."""

    __slots__ = ("_accepted", "_channel", "_outstanding", "_ready", "written")

    def __init__(self, channel: int) -> None:
        """Nothing delivered yet."""
        self._channel = channel
        self._outstanding: dict[int, None] = {}
        self._accepted: list[int] = []
        self._ready: list[bytes] = []
        self.written = 0
        """Ack frames emitted so far."""

    @property
    def accepted(self) -> bool:
        """Whether an ack waits for ``emit``."""
        return bool(self._accepted or self._ready)

    @property
    def outstanding(self) -> int:
        """How many deliveries are not settled yet."""
        return len(self._outstanding)

    def delivered(self, delivery_tag: int) -> None:
        """Count a delivery as outstanding."""
        self._outstanding[delivery_tag] = None

    def ack(self, delivery_tag: int) -> None:
        """Accept one ack for the next ``emit``.

        A tag that is not outstanding is written all the same, alone and in its place: the broker
        answers it with a 406, and hiding that would hide a defect (ACK-01).
        """
        if delivery_tag in self._outstanding:
            del self._outstanding[delivery_tag]
            self._accepted.append(delivery_tag)
        else:
            self._ready = [self.emit(), encode_ack(self._channel, delivery_tag, multiple=False)]

    def emit(self) -> bytes:
        """Return the frames for every ack accepted since the last call."""
        accepted = self._accepted
        frames, self._ready = self._ready, []
        if accepted:
            self._accepted = []
            self._coalesce(accepted, frames)
        self.written += len(frames)
        return b"".join(frames)

    def _coalesce(self, accepted: list[int], frames: list[bytes]) -> None:
        if len(accepted) > 1:
            accepted.sort()
            lowest = next(iter(self._outstanding), accepted[-1] + 1)
            prefix = bisect_left(accepted, lowest)
            if prefix > 1:
                frames.append(encode_ack(self._channel, accepted[prefix - 1], multiple=True))
                del accepted[:prefix]
        for tag in accepted:
            frames.append(encode_ack(self._channel, tag, multiple=False))  # noqa: PERF401 - one append is cheapest

    def ack_up_to(self, delivery_tag: int) -> bytes:
        """Return the frames that ack everything up to a tag."""
        before = self.emit()  # while the tag still counts as outstanding: no run may reach past it
        self._settle_up_to(delivery_tag)
        self.written += 1
        return before + encode_ack(self._channel, delivery_tag, multiple=True)

    def nack(self, delivery_tag: int, *, multiple: bool, requeue: bool) -> bytes:
        """Return the frames of a nack, behind those of every ack accepted before it."""
        before = self.emit()
        if multiple:
            self._settle_up_to(delivery_tag)
        else:
            self._outstanding.pop(delivery_tag, None)
        return before + encode_nack(self._channel, delivery_tag, multiple=multiple, requeue=requeue)

    def _settle_up_to(self, delivery_tag: int) -> None:
        for tag in [tag for tag in self._outstanding if tag <= delivery_tag]:
            del self._outstanding[tag]

    def drop(self) -> None:
        """Forget everything accepted: the channel has ended, and a late frame would be an error."""
        self._accepted = []
        self._ready = []
