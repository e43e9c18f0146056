"""Messages of the three queues over the last hour: ready ones, and those this console holds itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio

from craig_mq.console.settings import ConsoleSettings
from craig_mq.operator.errors import OperatorError
from craig_mq.operator.status import QueueDepth, queue_depths
from craig_mq.transport.broker import Broker
from craig_mq.transport.errors import TransportError

INTERVAL_S: Final = 5.0
SLOWEST_S: Final = 60.0
SAMPLES: Final = 720


class Depths:
    """Samples until cancelled. A broker that can't be asked leaves a gap, and is asked less often."""

    def __init__(self, broker: Broker, settings: ConsoleSettings, held: Callable[[], int]) -> None:
        self._broker = broker
        self._settings = settings
        self._held = held
        self._queues = (settings.queue, settings.parking, settings.quarantine)
        self._samples: deque[tuple[float, tuple[int | None, ...]]] = deque(maxlen=SAMPLES)
        self._failure: str | None = None

    async def run(self) -> None:
        """Count every 5 s, after failures up to every minute."""
        wait_s = INTERVAL_S
        counts: tuple[int | None, ...]
        while True:
            try:
                found = await queue_depths(self._broker, self._queues, oldest=False)
            except (TransportError, OperatorError) as error:
                self._failure, counts = str(error), (None,) * len(self._queues)
                wait_s = min(SLOWEST_S, wait_s * 2)
            else:
                self._failure, counts = None, tuple(self._count(one) for one in found)
                wait_s = INTERVAL_S
            self._samples.append((self._settings.now(), counts))
            await trio.sleep(wait_s)

    def _count(self, depth: QueueDepth) -> int | None:
        held = self._held() if depth.queue == self._settings.quarantine else 0
        return None if depth.ready is None else depth.ready + held

    def document(self, since: float) -> dict[str, Any]:
        """Samples after ``since`` (Unix epoch), oldest first: their time, then a count a queue or None."""
        return {
            "queues": self._queues,
            "failure": self._failure,
            "samples": [[at, *counts] for at, counts in self._samples if at > since],
        }
