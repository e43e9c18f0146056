"""The channel numbers of a connection, and what the protocol knows of each that is in use."""

from __future__ import annotations

from pamqp import base

from craig_mq.transport.native.content import ContentAssembly


class Slot:
    """One channel number in use.

    ``closing`` holds our close once it was asked for: from then on everything but its answer is
    dropped. It leaves only when no request is ``unanswered``: RabbitMQ 3.10 crashes the channel,
    and never answers, when a close comes on the heels of a basic.consume.
    """

    __slots__ = ("answered", "closing", "content", "unanswered")

    def __init__(self) -> None:
        """Open, expecting a method."""
        self.answered = False
        self.closing: base.Frame | None = None
        self.unanswered = 0
        self.content = ContentAssembly()


class Slots:
    """The numbers in use; a released one is used again only when no new one is left."""

    __slots__ = ("_free", "_highest", "_used", "get")

    def __init__(self) -> None:
        """No number is in use."""
        self._used: dict[int, Slot] = {}
        self._free: list[int] = []
        self._highest = 0
        self.get = self._used.get
        """The slot of a number in use, else None. Asked for every frame: the table's own method."""

    def take(self, channel_max: int) -> int | None:
        """Take a free number; None if ``channel_max`` are in use."""
        if self._highest < channel_max:
            self._highest += 1
            number = self._highest
        elif self._free:
            number = self._free.pop(0)
        else:
            return None
        self._used[number] = Slot()
        return number

    def release(self, number: int) -> None:
        """Both sides know that the channel is closed: its number may be used again."""
        del self._used[number]
        self._free.append(number)
