"""Troubles of one broker: killed, stopped, paused, out of memory or disk, impatient, at a limit."""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from craig_mq.testing.chaos.stage import Stage, undone
from craig_mq.testing.chaos.trouble import ONE_NODE, Trouble
from craig_mq.testing.chaos.workload import BIG_BODY_BYTES

_TIMEOUT_MS: Final = 1_000
_TICK_MS: Final = 300
_HOLD_S: Final = 3.0
_CAPTURE_ROOM: Final = 150
"""Bytes over a big body that the broker still takes: the body passes, its capture does not."""


async def _kill(stage: Stage) -> None:
    await stage.before_outage()
    await stage.call(stage.node.kill)
    await stage.call(stage.nodes[0].start)


async def _restart(stage: Stage) -> None:
    await stage.before_outage()
    await stage.call(stage.node.restart)


async def _stop_app(stage: Stage) -> None:
    await stage.before_outage()
    for step in ("rabbit:stop()", "rabbit:start()", "rabbit:await_startup()"):
        await stage.eval(step)


async def _pause(stage: Stage) -> None:
    node = stage.random.choice(stage.nodes)
    node.pause()
    try:
        await trio.sleep(stage.silence())
    finally:
        node.resume()


async def _alarm(stage: Stage, resource: str) -> None:
    alarm = f"{{resource_limit, {resource}, node()}}"
    async with undone(partial(stage.eval, f"rabbit_alarm:clear_alarm({alarm})")):
        await stage.eval(f"rabbit_alarm:set_alarm({{{alarm}, []}})")
        await trio.sleep(stage.moment())


async def _time_consumers_out(stage: Stage) -> None:
    """Let handlers hang for longer than the broker waits; a channel takes the limit over when it opens."""
    before = await stage.eval("element(2, application:get_env(rabbit, consumer_timeout))")
    tick = await stage.eval("element(2, application:get_env(rabbit, channel_tick_interval))")
    async with undone(partial(_set_patience, stage, before, tick)):
        await _set_patience(stage, str(_TIMEOUT_MS), str(_TICK_MS))
        await stage.until_consuming()
        stage.behaving.hold_s = _HOLD_S
        try:
            await trio.sleep(_HOLD_S)
        finally:
            stage.behaving.hold_s = 0.0


async def _set_patience(stage: Stage, timeout_ms: str, tick_ms: str) -> None:
    await _on_every_node(stage, f"application:set_env(rabbit, consumer_timeout, {timeout_ms})")
    await _on_every_node(stage, f"application:set_env(rabbit, channel_tick_interval, {tick_ms})")
    stage.proxy.reset()


async def _lower_size_limit(stage: Stage) -> None:
    """Let the broker refuse captures of big messages, which closes the channel they are published on."""
    before = await stage.eval("element(2, application:get_env(rabbit, max_message_size))")
    async with undone(partial(_set_size_limit, stage, before)):
        await _set_size_limit(stage, str(BIG_BODY_BYTES + _CAPTURE_ROOM))
        await stage.until_consuming()
        await trio.sleep(1 + stage.moment())


async def _set_size_limit(stage: Stage, limit: str) -> None:
    await _on_every_node(
        stage,
        f"application:set_env(rabbit, max_message_size, {limit}),"
        f" persistent_term:put(max_message_size, {limit})",
    )
    stage.proxy.reset()


async def _on_every_node(stage: Stage, erlang: str) -> None:
    await trio.lowlevel.checkpoint()
    for node in stage.nodes:
        await stage.call(partial(node.eval, erlang))


async def _limit_connections(stage: Stage) -> None:
    limit = 'rabbit_vhost_limit:set(<<"/">>, [{<<"max-connections">>, 1}], <<"chaos">>)'
    async with undone(partial(stage.eval, 'rabbit_vhost_limit:clear(<<"/">>, <<"chaos">>)')):
        await stage.eval(limit)
        stage.proxy.reset()
        await trio.sleep(stage.moment())


BROKER_TROUBLES: Final = (
    Trouble("broker killed (SIGKILL)", _kill, ONE_NODE),
    Trouble("memory alarm", partial(_alarm, resource="memory")),
    Trouble("broker paused (SIGSTOP)", _pause),
    Trouble("broker application stopped", _stop_app, ONE_NODE),
    Trouble("consumer_timeout", _time_consumers_out),
    Trouble("disk alarm", partial(_alarm, resource="disk")),
    Trouble("max_message_size lowered", _lower_size_limit),
    Trouble("broker restarted", _restart, ONE_NODE),
    Trouble("connection limit reached", _limit_connections),
)
