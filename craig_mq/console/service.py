"""A running service, looked at through its read-only status."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import trio

from craig_mq.operator.status import ServiceUnreachable, check_address, fetch_status, shown_address
from craig_mq.service.status import SHOWN_COUNTERS

FRESH_S: Final = 1.0
PATIENCE_S: Final = 8.0


class ServiceView:
    """Asks the service at most once a second, one question at a time, however many pages there are."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._turn = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        self._asked_at = -FRESH_S
        self._latest: dict[str, Any] = {"configured": address is not None}

    async def document(self) -> dict[str, Any]:
        """State, tree and counters, or why there are none. Cancelled: the question goes on by itself."""
        if self._address is None:
            await trio.lowlevel.checkpoint()
            return self._latest
        async with self._turn:
            if trio.current_time() - self._asked_at >= FRESH_S:
                self._latest = {"configured": True, **await self._ask(self._address)}
                self._asked_at = trio.current_time()
        return self._latest

    async def _ask(self, address: str) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(PATIENCE_S):
            return await trio.to_thread.run_sync(
                partial(_fetch, address), abandon_on_cancel=True, limiter=self._threads
            )
        _, host, port = check_address(address)
        return {"failure": f"no status from {shown_address(host, port)} within {PATIENCE_S:g} s"}


def _fetch(address: str) -> dict[str, Any]:
    try:
        return describe(fetch_status(address))
    except ServiceUnreachable as error:
        return {"failure": str(error)}


def describe(status: Any) -> dict[str, Any]:
    """A service's status as the page shows it; a foreign document is a failure, not an error."""
    try:
        statistics = status.get("statistics", {})
        return {
            "state": str(status["state"]),
            "queue": str(status.get("queue", "")),
            "tree": [*_walk(status["tree"], status["clock_s"], 0)] if "tree" in status else [],
            "counters": {name: int(statistics[name]) for name in SHOWN_COUNTERS if name in statistics},
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return {"failure": "the service's status has a form this version does not know"}


def _walk(supervisor: dict[str, Any], clock_s: float, depth: int) -> Iterator[dict[str, Any]]:
    for child in supervisor["children"]:
        yield {"depth": depth, "id": str(child["id"]), **_child(child, clock_s)}
        if child["supervisor"] is not None:
            yield from _walk(child["supervisor"], clock_s, depth + 1)


def _child(child: dict[str, Any], clock_s: float) -> dict[str, Any]:
    state = str(child["state"]).lower()
    words = [f"for {max(0.0, clock_s - child['since']):.0f} s", f"generation {child['generation']}"]
    if state == "backoff" and child["timer_at"] is not None:
        words.append(f"wakes in {max(0.0, child['timer_at'] - clock_s):.0f} s")
    if child["last_end"] is not None:
        words.append(f"after {child['last_end']}")
    return {"state": state, "words": ", ".join(words)}
