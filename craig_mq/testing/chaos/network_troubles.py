"""Troubles of the network between the subscription and its broker."""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from craig_mq.testing.chaos.stage import Stage
from craig_mq.testing.chaos.trouble import Trouble
from craig_mq.testing.proxy import Direction


async def _reset(stage: Stage) -> None:
    stage.proxy.reset()
    await trio.lowlevel.checkpoint()


async def _freeze(stage: Stage) -> None:
    stage.proxy.freeze()
    try:
        await trio.sleep(stage.silence())
    finally:
        stage.proxy.thaw()


async def _swallow(stage: Stage, direction: Direction) -> None:
    """Lose bytes one way; a stream with a hole is dead, so it ends with a reset."""
    stage.proxy.swallow(direction)
    try:
        await trio.sleep(stage.moment())
    finally:
        stage.proxy.heal()
        stage.proxy.reset()


async def _slow(stage: Stage) -> None:
    stage.proxy.delay(0.05)
    stage.proxy.throttle(20_000)
    try:
        await trio.sleep(stage.moment())
    finally:
        stage.proxy.heal()


async def _cut(stage: Stage, direction: Direction) -> None:
    """Reset every connection in the middle of a frame, wherever that is."""
    stage.proxy.cut_after(stage.random.randint(1, 2_000), direction)
    await trio.sleep(stage.moment())
    stage.proxy.heal()


NETWORK_TROUBLES: Final = (
    Trouble("connections reset", _reset),
    Trouble("network frozen", _freeze),
    Trouble("cut in a frame to the broker", partial(_cut, direction=Direction.TO_SERVER)),
    Trouble("cut in a frame to the client", partial(_cut, direction=Direction.TO_CLIENT)),
    Trouble("bytes to the broker lost", partial(_swallow, direction=Direction.TO_SERVER)),
    Trouble("bytes to the client lost", partial(_swallow, direction=Direction.TO_CLIENT)),
    Trouble("network slow", _slow),
)
