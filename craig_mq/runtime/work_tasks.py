"""The tasks of a session's work: they end before its settler and its publishing side do."""

# flake8: noqa: ASYNC910 - a job without a checkpoint is the job's own affair
from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import TypeVarTuple

import trio

from supervisors.flag import Flag

Ts = TypeVarTuple("Ts")


class WorkTasks:
    """Tasks in ``nursery``, which others share, that can be cancelled and waited for by themselves.

    A nursery of their own would do the same; but the first of them is whoever holds ``nursery`` open, and
    an idle session has no other. They run with the context variables of whoever makes this, not of whoever
    starts them: a handler may have set some.
    """

    __slots__ = ("_context", "_ended", "_nursery", "_over", "_running", "_scopes")

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._context = copy_context()
        self._scopes: set[trio.CancelScope] = set()
        self._running = 0
        self._over = False
        self._ended = Flag()

    def start_soon(self, run: Callable[[*Ts], Awaitable[None]], *arguments: *Ts) -> None:
        """Run something in a task of its own; once ``end`` was called, up to its first checkpoint."""
        self._running += 1
        self._context.run(partial(self._nursery.start_soon, self._run, run, *arguments, name=run))

    def enter(self) -> trio.CancelScope:
        """Return the scope that the caller's own part of the work is to run in, until it calls ``leave``."""
        self._running += 1
        return self._scope()

    def leave(self, scope: trio.CancelScope) -> None:
        """Count a part of the work as ended."""
        self._scopes.discard(scope)
        self._running -= 1
        if not self._running:
            self._ended.set()

    async def end(self) -> None:
        """Cancel everything, and return once it has ended. Cancelled: it is cancelled all the same."""
        self._over = True
        for scope in self._scopes:
            scope.cancel(reason="the session is over")
        while self._running:
            self._ended = Flag()
            await self._ended.wait()

    def _scope(self) -> trio.CancelScope:
        scope = trio.CancelScope()
        self._scopes.add(scope)
        if self._over:
            scope.cancel(reason="the session is over")
        return scope

    async def _run(self, run: Callable[[*Ts], Awaitable[None]], *arguments: *Ts) -> None:
        scope = self._scope()
        try:
            with scope:
                await run(*arguments)
        finally:
            self.leave(scope)
