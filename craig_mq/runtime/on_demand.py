"""Tasks that begin when they are first wanted: an idle session holds as few as it can."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Protocol

import trio


class Job(Protocol):
    """Something with a task of its own, which calls ``wanted`` whenever the task has something to do."""

    wanted: Callable[[], None]

    def run(self) -> Awaitable[None]:
        """What the task does, until cancelled or done."""
        ...


def nobody() -> None:
    """Stand in as ``wanted`` where the task was started anyway, or none can be any more."""


@contextmanager
def on_demand(nursery: trio.Nursery, job: Job) -> Generator[None]:
    """Start ``job.run`` in ``nursery`` when it is first wanted, for the length of the block.

    It runs with the context variables of the block, not with those of whoever first wants it: a handler
    may have set some for its own delivery.
    """
    context = copy_context()

    async def run() -> None:
        await job.run()

    def start() -> None:
        job.wanted = nobody
        context.run(nursery.start_soon, run)

    job.wanted = start
    try:
        yield
    finally:
        job.wanted = nobody
