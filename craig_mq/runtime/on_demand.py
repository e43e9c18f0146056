"""Tasks that begin when they are first wanted: an idle session holds as few as it can."""

# flake8: noqa: ASYNC910 - a job without a checkpoint is the job's own affair
from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from types import TracebackType
from typing import Protocol, Self


class Wanting(Protocol):
    """Something with a task of its own, which calls ``wanted`` whenever the task has something to do."""

    wanted: Callable[[], None]


class Starts(Protocol):
    """A nursery, or what starts tasks as one does."""

    def start_soon(self, run: Callable[[], Awaitable[None]], /) -> None:
        """Run something in a task of its own."""
        ...


def nobody() -> None:
    """Stand in as ``wanted`` where the task runs already, or none can be started any more."""


class OnDemand:
    """Starts tasks in ``nursery`` when they are wanted, for the length of the block; never behind it.

    They run with the context variables of the block, not with those of whoever wants them: a handler
    may have set some for its own delivery.
    """

    __slots__ = ("_context", "_jobs", "_nursery", "_open")

    def __init__(self, nursery: Starts) -> None:
        self._nursery = nursery
        self._context = copy_context()
        self._jobs: list[_Job] = []
        self._open = False

    def __enter__(self) -> Self:
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Start nothing any more; what runs goes on, in the nursery's hands."""
        self._open = False
        for job in self._jobs:
            job.owner.wanted = nobody

    def offer(self, owner: Wanting, run: Callable[[], Awaitable[None]], *, once: bool = False) -> None:
        """Start ``run`` whenever ``owner`` wants it and it does not run; or ``once`` in all."""
        job = _Job(self, owner, run, once)
        self._jobs.append(job)
        owner.wanted = job

    def start(self, run: Callable[[], Awaitable[None]]) -> None:
        """Start ``run`` now, unless the block is over."""
        if self._open:
            self._context.run(self._nursery.start_soon, run)

    @property
    def open(self) -> bool:
        """Whether the block is not over yet."""
        return self._open


class _Job:
    """One ``offer``: while it runs nobody needs to want it."""

    __slots__ = ("_on_demand", "_once", "_run", "owner")

    def __init__(
        self, on_demand: OnDemand, owner: Wanting, run: Callable[[], Awaitable[None]], once: bool
    ) -> None:
        self._on_demand = on_demand
        self.owner = owner
        self._run = run
        self._once = once

    def __call__(self) -> None:
        self.owner.wanted = nobody
        self._on_demand.start(self._until_done)

    async def _until_done(self) -> None:
        await self._run()
        # No checkpoint lies between the last look for something to do and this.
        if self._on_demand.open and not self._once:
            self.owner.wanted = self
