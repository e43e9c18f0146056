"""The outage short-circuit: while the database is down nobody waits for it (ADR-059 §dispositions)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from craig_mq.audit.errors import StoreUnavailable
from craig_mq.audit.events import AuditObserver, OutageBegan, OutageEnded


@attrs.define(slots=True, eq=False)
class OutageGate:
    """Closed by the first error that means "down", opened by a probe that succeeds.

    While it is closed every attempt fails at once with ``StoreUnavailable``, so deliveries go to
    parking without a timeout each. Probes back off from ``first_probe_s`` to ``probe_cap_s``.
    """

    _on_event: AuditObserver
    first_probe_s: float = 0.25
    probe_cap_s: float = 5.0
    _cause: Exception | None = attrs.field(default=None, init=False)
    _closed: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def down(self) -> bool:
        """Whether the database is known to be down."""
        return self._cause is not None

    def check(self) -> None:
        """Raise ``StoreUnavailable`` while the database is known to be down."""
        if self._cause is not None:
            raise self.refusal() from self._cause

    def refusal(self) -> StoreUnavailable:
        """What a delivery is told while the database is down."""
        return StoreUnavailable(f"the audit database is down: {self._cause}")

    def report(self, error: Exception) -> None:
        """Close the gate because of ``error``; a second report of the same outage changes nothing."""
        if self._cause is None:
            self._cause = error
            self._on_event(OutageBegan(type(error).__name__, str(error).strip()))
            self._closed.set()

    async def run(self, probe: Callable[[], Awaitable[None]]) -> None:
        """Probe during outages, for as long as the store is open. Never returns; cancel it."""
        while True:
            await self._closed.wait()
            began = trio.current_time()
            await self._probe_until_up(probe)
            self._cause = None
            self._closed = trio.Event()
            self._on_event(OutageEnded(trio.current_time() - began))

    async def _probe_until_up(self, probe: Callable[[], Awaitable[None]]) -> None:
        delay = self.first_probe_s
        while True:
            await trio.sleep(delay)
            try:
                await probe()
            except Exception as error:  # noqa: BLE001 - whatever a probe says, the database is not back yet
                self._cause = error
                delay = min(delay * 2, self.probe_cap_s)
            else:
                return
