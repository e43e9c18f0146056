"""Why one session ends: the first reason, unless a settlement failed (decisions, 16)."""

from __future__ import annotations

from collections.abc import Callable

import trio

from craig_mq.core.close import CloseReason
from craig_mq.core.session_end import SessionEnd, classify_end
from craig_mq.runtime.on_demand import nobody


class Ending:
    """The end of one session while it comes to be. Everything here is synchronous.

    ``noted`` says whether the session is ending. ``wanted`` is called when it is, so that somebody sees
    the session to its end; it may be called before by whoever begins what would not notice.
    """

    def __init__(self) -> None:
        self.noted = False
        self._waiting: trio.CancelScope | None = None
        self.wanted: Callable[[], None] = nobody
        self._lost: tuple[SessionEnd, str] | None = None
        self._failure: str | None = None
        self._drained = False
        self._start_failure: str | None = None

    @property
    def failed(self) -> bool:
        """Whether a settlement failed."""
        return self._failure is not None

    def interrupt(self, waiting: trio.CancelScope) -> None:
        """Cancel ``waiting`` once the session is ending; at once if it is."""
        self._waiting = waiting
        if self.noted:
            self._note()

    def settlement_failed(self, text: str) -> bool:
        """Note a settlement failure. True for the session's first: one incident, one report (ACK-08)."""
        first = self._failure is None
        if first:
            self._failure = text
        self._note()
        return first

    def lost(self, reason: CloseReason, *, in_flight: bool) -> None:
        """Note that the consumer, a channel or a connection ended, by what is in flight at that moment."""
        if self._lost is None:
            self._lost = (classify_end(reason, in_flight=in_flight), str(reason))
        self._note()

    def start_failed(self, text: str) -> None:
        """Note that the session never came to consume."""
        self._start_failure = text
        self._note()

    def drained(self) -> None:
        """Note that a graceful shutdown left nothing in flight."""
        self._drained = True
        self._note()

    def _note(self) -> None:
        self.noted = True
        self.wanted()
        if self._waiting is not None:
            self._waiting.cancel(reason="the session is ending")

    def verdict(self) -> tuple[SessionEnd, str]:
        """Return the end and the words that go with it: the broker's own where it gave any."""
        if self._failure is not None:
            return SessionEnd.SETTLEMENT_FAILED, self._failure
        if self._lost is not None:
            return self._lost
        if self._start_failure is not None:
            return SessionEnd.CONNECTION_LOST, self._start_failure
        if self._drained:
            return SessionEnd.SHUTDOWN, ""
        return SessionEnd.CANCELLED, ""
