"""What is known about earlier publishes when a session begins."""

from __future__ import annotations

from typing import Protocol

from craig_mq.core.close import CloseReason
from craig_mq.core.outcome import Confirmation


class PublishMemory(Protocol):
    """What an arm remembers about publishing from one session to the next."""

    @property
    def publish_alone_first(self) -> bool:
        """Whether an earlier publish has an unknown outcome, so that the next one goes alone."""
        ...

    def publish_resolved(self, confirmation: Confirmation) -> None:
        """Take note of a publish's outcome."""
        ...

    def size_refused(self, reason: CloseReason | None) -> None:
        """Learn from a channel closed over a message's size; other reasons teach nothing."""
        ...
