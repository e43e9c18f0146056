"""The crossing between Trio and asyncio; the one module that knows trio_asyncio (which is untyped).

Every asyncio coroutine runs as a *detached* asyncio task: the Trio side waits for an event, so it can
stop waiting at any moment. Awaiting the asyncio future directly could not (field failure TRIO-07):
trio-asyncio's wait refuses to be cancelled until the asyncio side agrees.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar, cast

import trio
import trio_asyncio
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from trio_asyncio._base import TrioAsyncioExit

from craig_mq.transport.aio_pika.log_filter import keep_messages_out_of_the_log

T = TypeVar("T")
Work = Coroutine[Any, Any, T]

_SETTLE_BOUND_S = 1.0
_LOG = logging.getLogger(__name__)

# What aiormq's own background tasks end with when a connection or channel ends; the end itself is
# reported by the connection's lifetime, so a task whose exception nobody fetched tells nothing new.
ORDINARY_ENDS = (AMQPError, ChannelInvalidStateError, OSError, EOFError, asyncio.CancelledError)
_EXITS = (SystemExit, KeyboardInterrupt)


class Detached(Generic[T]):
    """One asyncio coroutine under way, and what a Trio task sees of it."""

    def __init__(self, tasks: DetachedTasks, task: asyncio.Task[T]) -> None:
        self._tasks = tasks
        self._task = task
        self._settled = trio.Event()
        self._error: BaseException | None = None
        self._given_up = False
        self._undo: Callable[[T], Work[None]] | None = None
        task.add_done_callback(self._on_done)

    async def wait(self) -> T:
        """Return the coroutine's result or raise its exception; cancelled at once when cancelled.

        An asyncio-side cancellation arrives as ``asyncio.CancelledError``, for the caller to map.
        """
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        self._given_up = True  # taken: there is nothing left to undo
        return self._task.result()

    def fail(self, error: Exception) -> None:
        """Make ``wait`` raise ``error`` now, whatever becomes of the coroutine."""
        if not self._settled.is_set():
            self._error = error
            self._settled.set()

    def abandon(self, undo: Callable[[T], Work[None]] | None) -> None:
        """Nobody waits any more: if the coroutine has a result, or ever gets one, ``undo`` it.

        Does nothing once ``wait`` returned the result.
        """
        if self._given_up:
            return
        self._given_up = True
        self._undo = undo
        if self._task.done():
            self._undo_late_result()

    def cancel(self) -> None:
        """Ask the coroutine to stop, without waiting for it."""
        self._task.cancel()

    def _on_done(self, task: asyncio.Task[T]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not self._settled.is_set():
            self._error = error
            self._settled.set()
        if self._given_up:
            self._undo_late_result()

    def _undo_late_result(self) -> None:
        if self._undo is not None and not self._task.cancelled() and self._task.exception() is None:
            self._tasks.detach(self._undo(self._task.result()))


class DetachedTasks:
    """The detached tasks of one connection: cancelled and awaited together when it is left."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._running: set[asyncio.Task[Any]] = set()
        self._one_ended = trio.Event()

    def detach(self, work: Work[T]) -> Detached[T]:
        """Start ``work`` in the loop. Its exceptions never go unretrieved."""
        task = self._bridge.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_ended)
        return Detached(self, task)

    async def stop(self) -> None:
        """Cancel what still runs, and what that starts to clean up, until nothing runs."""
        await self._bridge.pass_through()
        while self._running:
            self._one_ended = trio.Event()
            for task in tuple(self._running):
                task.cancel()
            await self._one_ended.wait()

    def _on_ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._one_ended.set()


class Bridge:
    """An asyncio loop inside Trio, usable from any Trio task, also from outside its block."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.exit: SystemExit | KeyboardInterrupt | None = None
        # trio-asyncio finds its loop in a context variable. Tasks started before the loop was
        # opened do not have it, so every crossing enters this context (field failure TRIO-04).
        self._context = contextvars.copy_context()

    @property
    def closed(self) -> bool:
        """Whether the loop's block has ended."""
        return self.loop.is_closed()

    def create_task(self, work: Work[T]) -> asyncio.Task[T]:
        """Start an asyncio task in the loop."""
        return self.run_sync(lambda: self.loop.create_task(work))

    def run_sync(self, function: Callable[[], T]) -> T:
        """Call a synchronous asyncio-flavoured function with the loop current."""
        return self._context.copy().run(function)

    async def wait_quiet(self) -> None:
        """Return once no asyncio task is left; aiormq's end by themselves after a reset.

        One that still ran when the loop closes would raise its ordinary end out of the loop's block.
        """
        await self.pass_through()
        while tasks := asyncio.all_tasks(self.loop):
            ended = asyncio.wait(tasks, return_when=asyncio.ALL_COMPLETED)
            await DetachedTasks(self).detach(ended).wait()
            await self.pass_through()

    async def pass_through(self) -> None:
        """Return once the loop has run everything that was ready."""
        passed = trio.Event()
        self.loop.call_soon(passed.set)
        await passed.wait()


def on_closing(
    amqp: AbstractConnection | AbstractChannel, call: Callable[[BaseException | None], None]
) -> None:
    """Call ``call`` with the error, if any, once aiormq is done with a connection or channel.

    Also a crash of one of aiormq's own tasks ends there.
    """

    def closed(closing: asyncio.Future[object]) -> None:
        call(None if closing.cancelled() else closing.exception())

    closing = cast("asyncio.Future[object]", amqp.closing)  # pyright: ignore[reportUnknownMemberType]
    closing.add_done_callback(closed)


def _on_orphan_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Let a crash in a background task surface in Trio; keep ordinary ends of aiormq's tasks quiet."""
    error = context.get("exception")
    if error is None or isinstance(error, (*ORDINARY_ENDS, *_EXITS)):  # exits: see _survive_exits
        _LOG.debug("asyncio: %s: %s", context.get("message"), type(error).__name__)
    else:
        loop.default_exception_handler(context)  # trio-asyncio's raises it from the loop's block


def _survive_exits(bridge: Bridge, block: trio.CancelScope) -> None:
    """Let an exit raised in the loop cancel the block instead of killing the loop (field failure CLI-02).

    asyncio hands SystemExit and KeyboardInterrupt through its callbacks on purpose, out of the loop. A
    dead loop resolves nothing any more, so the block's own end, which waits for its tasks, would hang.
    """
    loop = cast("Any", bridge.loop)
    run_one = loop._main_loop_one  # noqa: SLF001 - trio-asyncio has no public place to see them

    async def guarded(**options: bool) -> None:  # noqa: ASYNC910 - the loop's own step
        step = run_one(**options)
        frame = step.cr_frame
        try:
            await step
        except TrioAsyncioExit:
            raise  # how the loop itself is stopped
        except _EXITS as error:
            bridge.exit = error
            block.cancel(reason=f"{type(error).__name__} inside the asyncio loop")
        finally:
            # A crashed task's traceback leads back to this frame, and its handle to the task: a cycle,
            # and the crash would be reported whenever the collector next comes by (Python >= 3.12).
            frame.clear()

    loop._main_loop_one = guarded  # noqa: SLF001
    bridge.loop.call_soon(lambda: None)  # what runs next still runs in the step under way, unguarded


def _open_loop() -> AbstractAsyncContextManager[asyncio.AbstractEventLoop]:
    return cast("AbstractAsyncContextManager[asyncio.AbstractEventLoop]", trio_asyncio.open_loop())  # pyright: ignore[reportUnknownMemberType]


@asynccontextmanager
async def open_bridge() -> AsyncGenerator[Bridge, None]:
    """Run an asyncio loop for the length of the block.

    An exception of the block leaves as it is, not wrapped in the groups of the loop's nurseries; a
    crash in a background asyncio task cancels the block and leaves as a group; SystemExit and
    KeyboardInterrupt raised by a callback or task cancel the block and leave as they are.
    """
    block_error: BaseException | None = None
    keep_messages_out_of_the_log()
    async with _open_loop() as loop:
        loop.set_exception_handler(_on_orphan_exception)
        bridge = Bridge(loop)
        with trio.CancelScope() as block:  # noqa: ASYNC100 - the checkpoints are those of the block
            _survive_exits(bridge, block)
            try:
                yield bridge
            except BaseException as error:  # noqa: BLE001, ASYNC103 - raised below, outside the loop's nurseries
                block_error = error
        with trio.move_on_after(_SETTLE_BOUND_S, shield=True):
            await bridge.wait_quiet()
    if bridge.exit is not None:
        raise bridge.exit from block_error
    if block_error is not None:
        raise block_error
