"""An intake that hands out one delivery of a key at a time (decisions, 19: ordering per key).

What it promises is *one in flight per key*, in the order of arrival. A message sent back by its first
strike comes again later, and what arrived behind it may be handled first: whoever needs strict order
lets failures be retried in the session, and one consumer read the queue.
"""

# flake8: noqa: ASYNC910,ASYNC912 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from craig_mq.core.delivery import Delivery
from craig_mq.runtime.intake import Intake, Resumed


class KeyedIntake(Intake[Resumed]):
    """Holds back a delivery while another of its key is in flight; ``key_of`` None means no key."""

    def __init__(self, key_of: Callable[[Delivery], str | None]) -> None:
        super().__init__()
        self._key_of = key_of
        self._held: dict[str, deque[Delivery]] = {}
        self._keys: dict[int, str] = {}
        self._free: deque[Delivery] = deque()
        self._turn = trio.Lock()

    def take_nowait(self) -> Delivery | None:
        """Take a delivery whose key is free, or None; also None while another worker is receiving."""
        while not self.stopped:
            if self._free:
                return self._free.popleft()
            delivery = None if self._turn.locked() else super().take_nowait()
            if delivery is None or self._admits(delivery):
                return delivery
        return None

    async def take(self, scope: trio.CancelScope) -> Delivery | None:
        """Wait for a delivery whose key is free.

        One worker receives at a time: of two that are handed a delivery each, the second might run first.
        """
        self._idle.add(scope)
        try:
            await self._turn.acquire()
        finally:
            self._idle.discard(scope)
        try:
            while True:
                delivery = self._free.popleft() if self._free else await super().take(scope)
                if delivery is None or delivery.delivery_tag in self._keys or self._admits(delivery):
                    return delivery
        finally:
            self._turn.release()

    def release(self, delivery: Delivery) -> None:
        """Let the next delivery of this one's key go."""
        key = self._keys.pop(delivery.delivery_tag, None)
        if key is None:
            return
        held = self._held[key]
        if not held:
            del self._held[key]
            return
        following = held.popleft()
        self._keys[following.delivery_tag] = key
        self._free.append(following)
        self.wake_one("a key is free")

    async def pause(self) -> list[Delivery]:
        """Cancel the consumer; what is held back is to be requeued with what was buffered, in order."""
        buffered = await super().pause()
        waiting = [*self._free, *(delivery for held in self._held.values() for delivery in held)]
        for held in self._held.values():
            held.clear()
        while self._free:
            self.release(self._free.popleft())
        return sorted([*waiting, *buffered], key=_tag)

    def _admits(self, delivery: Delivery) -> bool:
        """Whether it may go at once; otherwise it is held back."""
        key = self._key_of(delivery)
        if key is None:
            return True
        if key in self._held:
            self._held[key].append(delivery)
            return False
        self._held[key] = deque()
        self._keys[delivery.delivery_tag] = key
        return True


def _tag(delivery: Delivery) -> int:
    return delivery.delivery_tag
