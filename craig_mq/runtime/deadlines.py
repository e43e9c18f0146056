"""One bound, the same for many cancel scopes, watched by one task.

A deadline on each scope would change Trio's timers twice per delivery, and each change costs more
than the rest of the scope. Where every bound is equally long, the first to begin is the first to be
due: one task that sleeps until then is enough, and beginning and ending a bound touch one mapping.
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections import OrderedDict

import trio


class Deadlines:
    """Scopes that are cancelled ``seconds`` after their ``begin``, unless ``end`` came first.

    Nothing is cancelled while ``run`` does not run, or while the clock stands still.
    """

    def __init__(self, seconds: float, reason: str) -> None:
        self.seconds = seconds
        self._reason = reason
        self._due: OrderedDict[trio.CancelScope, float] = OrderedDict()
        self._still_since: float | None = None
        self._changed = trio.Event()
        self._idle = False

    def __len__(self) -> int:
        return len(self._due)

    def begin(self, scope: trio.CancelScope, now: float) -> None:
        """Bound ``scope``, counted from ``now`` by Trio's clock."""
        self._due[scope] = now + self.seconds
        if self._idle:
            self._changed.set()

    def end(self, scope: trio.CancelScope) -> None:
        """Bound ``scope`` no longer."""
        self._due.pop(scope, None)

    def stand_still(self) -> None:
        """Stop the clock for every bound."""
        self._still_since = trio.current_time()

    def go_on(self) -> None:
        """Let the clock go on: what was left of each bound when it stopped is left now."""
        if self._still_since is not None:
            held = trio.current_time() - self._still_since
            self._still_since = None
            for scope in self._due:
                self._due[scope] += held
            self._changed.set()

    async def run(self) -> None:
        """Cancel what is due, until cancelled."""
        while True:
            if self._due and self._still_since is None:
                scope, due = next(iter(self._due.items()))
                if due > trio.current_time():
                    await trio.sleep_until(due)
                else:
                    del self._due[scope]
                    scope.cancel(reason=self._reason)
            else:
                self._changed = trio.Event()
                self._idle = True
                await self._changed.wait()
                self._idle = False
