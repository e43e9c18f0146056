"""What a subscription's first start waits for: both sessions up, or a refusal (decisions, 18)."""

from __future__ import annotations

from collections.abc import Iterable

from craig_mq.observe.events import Arm
from supervisors.flag import Flag


class StartGate:
    """Opens once every arm has consumed, or once something was refused for good.

    Refusals count only until then: later ones are retried like any other end.
    """

    __slots__ = ("_decided", "_missing", "last_failure", "refusal")

    def __init__(self, arms: Iterable[Arm] = ("main", "parking")) -> None:
        self._missing = set(arms)
        self._decided = Flag()
        self.refusal: Exception | None = None
        self.last_failure: Exception | None = None

    async def wait(self) -> None:
        """Return once it is decided: ``refusal`` says how."""
        await self._decided.wait()

    def up(self, arm: Arm) -> None:
        """This arm consumes."""
        self._missing.discard(arm)
        if not self._missing:
            self._decided.set()

    def refused(self, error: Exception) -> None:
        """Trying again cannot help unless somebody changes something."""
        if not self._decided.is_set():
            self.refusal = error
            self._decided.set()

    def failed(self, error: Exception) -> None:
        """Trying again may help; remember why it was needed."""
        self.last_failure = error

    def close(self) -> None:
        """Nothing will start any more."""
        self._decided.set()
