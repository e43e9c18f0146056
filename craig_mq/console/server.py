"""The console's process: its page on loopback, its tasks below one nursery, its end by signal."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import Final

import trio

from craig_mq.console.app import console_app
from craig_mq.console.desk import Desk, open_desk
from craig_mq.console.settings import ConsoleSettings
from craig_mq.review.page.guard import loopback_hosts
from craig_mq.review.page.listener import contained, keep_serving
from craig_mq.transport.broker import Broker

LAST_MESSAGE_S: Final = 60.0


async def serve_console(
    broker: Broker, settings: ConsoleSettings, listening: socket.socket, announce: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; ``announce`` gets the address with its token.

    A redrive under way ends between two messages first, within a minute; a second signal does not wait.
    Raises BadFolder and BadJournal for a folder that can't be used.
    """
    host, port = listening.getsockname()[:2]
    hosts = loopback_hosts(port)
    with listening, trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_desk(broker, settings) as desk, trio.open_nursery() as nursery:
            app, token = console_app(desk, hosts=hosts, port=port)
            nursery.start_soon(keep_serving, listening, contained(app))
            shown = f"[{host}]" if ":" in host else host
            announce(f"http://{shown}:{port}/#t={token}")
            name = signal.Signals(await anext(aiter(signals))).name
            nursery.start_soon(_finish, desk, name, nursery.cancel_scope)
            async for number in signals:
                nursery.cancel_scope.cancel(reason=f"{signal.Signals(number).name} again")


async def _finish(desk: Desk, signal_name: str, whole: trio.CancelScope) -> None:
    """Let a run end between two messages, then end the console."""
    desk.runner.stop(signal_name)
    await trio.lowlevel.checkpoint()
    if desk.runner.run is not None:
        with trio.move_on_after(LAST_MESSAGE_S):
            await desk.runner.run.over.wait()
    whole.cancel(reason=signal_name)
