"""What goes wrong on the way to a real broker, and in it: each trouble is made and undone by one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import attrs
import trio

from craig_mq.testing.proxy import Direction, TcpProxy
from craig_mq.testing.rabbitmq import RabbitNode

QUEUE = "chaos.dlq"
PARKING = QUEUE + ".parking"
APPLIED_S = 0.5
UNDO_S = 30.0
"""What a trouble did is undone even when the campaign is cancelled, within this."""
"""How long a policy takes to reach every queue, with much to spare."""


@attrs.define(frozen=True, slots=True)
class Stage:
    """What a trouble acts on. ``chance`` is uniform in [0, 1), fresh at each call."""

    node: RabbitNode
    proxy: TcpProxy
    chance: Callable[[], float]

    async def eval(self, erlang: str) -> str:
        """Evaluate Erlang in the broker."""
        return await trio.to_thread.run_sync(partial(self.node.eval, erlang))

    async def call(self, deed: Callable[[], None]) -> None:
        """Do something blocking with the node."""
        await trio.to_thread.run_sync(deed)


async def _kill(stage: Stage) -> None:
    await stage.call(stage.node.kill)
    await stage.call(stage.node.start)


async def _restart(stage: Stage) -> None:
    await stage.call(stage.node.restart)


async def _pause(stage: Stage) -> None:
    stage.node.pause()
    try:
        await trio.sleep(0.5 + stage.chance())
    finally:
        stage.node.resume()


async def _stop_app(stage: Stage) -> None:
    await stage.eval("rabbit:stop()")
    await stage.eval("rabbit:start()")
    await stage.eval("rabbit:await_startup()")


async def _alarm(stage: Stage, resource: str) -> None:
    alarm = f"{{resource_limit, {resource}, node()}}"
    await stage.eval(f"rabbit_alarm:set_alarm({{{alarm}, []}})")
    try:
        await trio.sleep(0.3 + stage.chance())
    finally:
        with trio.move_on_after(UNDO_S, shield=True):
            await stage.eval(f"rabbit_alarm:clear_alarm({alarm})")


async def _close_connections(stage: Stage) -> None:
    await stage.eval(
        '[rabbit_networking:close_connection(P, "chaos") || P <- rabbit_networking:connections()]'
    )


async def _delete_empty_parking(stage: Stage) -> None:
    """Delete the parking queue if there is nothing in it: deleting messages is no fault, it is an order."""
    name = f'rabbit_misc:r(<<"/">>, queue, <<"{PARKING}">>)'
    await stage.eval(
        f"case rabbit_amqqueue:lookup({name}) of {{ok, Q}} ->"
        ' catch rabbit_amqqueue:delete(Q, false, true, <<"chaos">>); _ -> ok end'
    )


async def _forbid_writing(stage: Stage) -> None:
    await stage.call(partial(stage.node.set_permissions, "/", write="^(?!chaos).*$"))
    try:
        await trio.sleep(0.3 + stage.chance())
    finally:
        with trio.move_on_after(UNDO_S, shield=True):
            await stage.call(partial(stage.node.set_permissions, "/"))


async def _reject_publishes(stage: Stage) -> None:
    """Fill the siblings. In two steps: a policy that sets both at once drops heads before it refuses."""
    pattern = '<<"^chaos.dlq.(parking|quarantine)$">>'
    for limit in (1_000_000, 0):
        definition = f'[{{<<"max-length">>, {limit}}}, {{<<"overflow">>, <<"reject-publish">>}}]'
        await stage.eval(
            f'rabbit_policy:set(<<"/">>, <<"full">>, {pattern}, {definition}, 0, <<"queues">>, <<"chaos">>)'
        )
        await trio.sleep(APPLIED_S)
    try:
        await trio.sleep(0.3 + stage.chance())
    finally:
        with trio.move_on_after(UNDO_S, shield=True):
            await stage.eval('rabbit_policy:delete(<<"/">>, <<"full">>, <<"chaos">>)')


async def _reset(stage: Stage) -> None:
    stage.proxy.reset()
    await trio.lowlevel.checkpoint()


async def _freeze(stage: Stage) -> None:
    stage.proxy.freeze()
    try:
        await trio.sleep(0.3 + stage.chance())
    finally:
        stage.proxy.thaw()


async def _swallow(stage: Stage, direction: Direction) -> None:
    """Lose bytes one way; a stream with a hole is dead, so it ends with a reset."""
    stage.proxy.swallow(direction)
    try:
        await trio.sleep(0.3 + stage.chance())
    finally:
        stage.proxy.heal()
        stage.proxy.reset()


async def _slow(stage: Stage) -> None:
    stage.proxy.delay(0.05)
    stage.proxy.throttle(20_000)
    try:
        await trio.sleep(0.5 + stage.chance())
    finally:
        stage.proxy.heal()


async def _cut(stage: Stage, direction: Direction) -> None:
    """Reset every connection in the middle of a frame, wherever that is."""
    stage.proxy.cut_after(1 + int(stage.chance() * 2_000), direction)
    await trio.sleep(1)
    stage.proxy.heal()


TROUBLES: Final[dict[str, Callable[[Stage], Awaitable[None]]]] = {
    "connections reset": _reset,
    "network frozen": _freeze,
    "cut in a frame to the broker": partial(_cut, direction=Direction.TO_SERVER),
    "cut in a frame to the client": partial(_cut, direction=Direction.TO_CLIENT),
    "broker paused (SIGSTOP)": _pause,
    "memory alarm": partial(_alarm, resource="memory"),
    "connections closed by the operator": _close_connections,
    "publishes rejected (queue full)": _reject_publishes,
    "broker killed (SIGKILL)": _kill,
    "bytes to the broker lost": partial(_swallow, direction=Direction.TO_SERVER),
    "bytes to the client lost": partial(_swallow, direction=Direction.TO_CLIENT),
    "network slow": _slow,
    "write permission taken": _forbid_writing,
    "empty parking queue deleted": _delete_empty_parking,
    "disk alarm": partial(_alarm, resource="disk"),
    "broker application stopped": _stop_app,
    "broker restarted": _restart,
}
