"""One batch of rows on its way: what may go side by side does, what must wait for its forerunner does."""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import attrs
import trio

from craig_mq.outbox.table import OutboxRow


@attrs.define(slots=True, eq=False)
class Batch:
    """One batch: ordering keys side by side, rows of a key one after the other, marks as confirms come."""

    _publish_row: Callable[[OutboxRow], Awaitable[bool]]
    _mark: Callable[[list[int]], Awaitable[None]]
    _confirmed: list[int] = attrs.field(factory=list[int], init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)
    _finished: bool = attrs.field(default=False, init=False)

    async def publish(self, rows: list[OutboxRow]) -> bool:
        """Publish a batch; whether every row of it was confirmed and marked."""
        groups: dict[str | int, list[OutboxRow]] = {}
        for row in rows:
            groups.setdefault(row.seq if row.ordering_key is None else row.ordering_key, []).append(row)
        marked = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._publish_groups, list(groups.values()))
            while not (self._finished and not self._confirmed):
                await self._news.wait()
                self._news = trio.Event()
                confirmed, self._confirmed = self._confirmed, []
                if confirmed:
                    await self._mark(confirmed)
                    marked += len(confirmed)
        return marked == len(rows)

    async def _publish_groups(self, groups: Iterable[list[OutboxRow]]) -> None:
        async with trio.open_nursery() as nursery:
            for group in groups:
                nursery.start_soon(self._publish_group, group)
        self._finished = True
        self._news.set()

    async def _publish_group(self, group: list[OutboxRow]) -> None:
        for row in group:
            if not await self._publish_row(row):
                return  # What follows in this key waits for it.
            self._confirmed.append(row.seq)
            self._news.set()
