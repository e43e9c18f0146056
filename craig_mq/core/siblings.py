"""The two queues beside a dead-letter queue, by name (decisions, 1)."""

from __future__ import annotations

from craig_mq.core.config import PARKING_SUFFIX, QUARANTINE_SUFFIX


class SiblingQueues:
    """For whatever names a dead-letter ``queue``: the names of its siblings."""

    __slots__ = ()
    queue: str

    @property
    def quarantine(self) -> str:
        """The quarantine queue."""
        return self.queue + QUARANTINE_SUFFIX

    @property
    def parking(self) -> str:
        """The parking queue."""
        return self.queue + PARKING_SUFFIX
