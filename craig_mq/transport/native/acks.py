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

    __slots__ = ("_accepted", "_channel", "_ready", "outstanding", "written")

    def __init__(self, channel: int) -> None:
        """Nothing delivered yet."""
        self._channel = channel
        self.outstanding: dict[int, None] = {}
        """The tags delivered and not settled, in order; the channel adds to it."""
        self._accepted: list[int] = []
        self._ready: list[bytes] = []
        self.written = 0
        """Ack frames emitted so far."""

    def ack(self, delivery_tag: int) -> bool:
        """Accept one ack for the next ``emit``; return whether it is the first one for that.

        A tag that is not outstanding is written all the same, alone and in its place: the broker
        answers it with a 406, and hiding that would hide a defect (ACK-01).
        """
        first = not self._accepted and not self._ready
        if delivery_tag in self.outstanding:
            del self.outstanding[delivery_tag]
            self._accepted.append(delivery_tag)
        else:
            self._ready = [self.emit(), encode_ack(self._channel, delivery_tag, multiple=False)]
        return first

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
            lowest = next(iter(self.outstanding), accepted[-1] + 1)
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
            self.outstanding.pop(delivery_tag, None)
        return before + encode_nack(self._channel, delivery_tag, multiple=multiple, requeue=requeue)

    def _settle_up_to(self, delivery_tag: int) -> None:
        for tag in [tag for tag in self.outstanding if tag <= delivery_tag]:
            del self.outstanding[tag]

    def drop(self) -> None:
        """Forget everything accepted: the channel has ended, and a late frame would be an error."""
        self._accepted = []
        self._ready = []
