"""What the tests of the supervisor share: scripted bodies, and a tree that is shut down after the test."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from hypothesis import settings

from supervisors import ChildContext, Supervisor, SupervisorSpec
from supervisors.events import Event, Observer
from supervisors.spec import Body

# Properties are held to what they say, not to how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


class Script:
    """Bodies that note what happens to them, in one shared list."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.events: list[Event] = []

    def forever(self, name: str, *, cleanup_s: float = 0.0) -> Body:
        """Report started, run until drained or cancelled, note it once cleaned up."""

        async def body(ctx: ChildContext) -> None:
            self.log.append(f"{name} up")
            ctx.started()
            how = "cancelled"
            try:
                await ctx.shutdown.wait()
                how = "drained"
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + cleanup_s):
                    await trio.sleep_forever()
                self.log.append(f"{name} {how}")

        return body

    def failing(self, name: str, make: Callable[[], object], *, runs: int = 1, after_s: float = 0.0) -> Body:
        """The first ``runs`` generations end with ``make()`` (returned, or raised if an exception)."""

        async def body(ctx: ChildContext) -> object:
            if ctx.generation > runs:
                return await self.forever(name)(ctx)
            self.log.append(f"{name} up")
            ctx.started()
            await trio.sleep(after_s)
            result = make()
            if isinstance(result, BaseException):
                raise result
            return result

        return body

    def observe(self, event: Event) -> None:
        """Keep every event."""
        self.events.append(event)

    def seen(self, kind: type[Event]) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def script() -> Script:
    return Script()


Opener = Callable[..., AbstractAsyncContextManager[Supervisor]]


@pytest.fixture
def opened(script: Script) -> Opener:
    @asynccontextmanager
    async def open_tree(
        spec: SupervisorSpec, observer: Observer | None = None, *, ready: bool = True
    ) -> AsyncGenerator[Supervisor]:
        handle = Supervisor(spec, observer=observer or script.observe)
        async with trio.open_nursery() as nursery:
            await nursery.start(handle.run)
            if ready:
                await handle.wait_ready()
            yield handle
            if not handle.closed:
                handle.shutdown("test over")

    return open_tree
