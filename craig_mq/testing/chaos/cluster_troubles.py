"""Troubles of a cluster: nodes lost and coming back, the leader's among them."""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from craig_mq.testing.chaos.stage import QUEUE, Stage, undone
from craig_mq.testing.chaos.trouble import CLUSTER, Trouble
from craig_mq.testing.rabbitmq import RabbitNode

_START_S: Final = 150.0  # a node gives up starting after 120 s


async def _leader_first(stage: Stage) -> list[RabbitNode]:
    """Return the nodes, that of the main queue's leader first."""
    name = f'rabbit_misc:r(<<"/">>, queue, <<"{QUEUE}">>)'
    leader = await stage.eval(
        f"case rabbit_amqqueue:lookup({name}) of"
        " {ok, Q} -> element(2, amqqueue:get_pid(Q)); _ -> node() end"
    )
    return sorted(stage.nodes, key=lambda node: node.name != leader.strip("'"))


async def _lose(stage: Stage, first: int, last: int) -> None:
    """Kill nodes ``first`` to ``last``, the leader's being 0; let the rest work; start them again."""
    await stage.before_outage()
    victims = (await _leader_first(stage))[first : last + 1]
    async with undone(partial(_start_all, stage, victims), _START_S):
        for node in victims:
            await stage.call(node.kill)
        await trio.sleep(1 + stage.moment())


async def _stop_leader_app(stage: Stage) -> None:
    await stage.before_outage()
    leader = (await _leader_first(stage))[0]
    await stage.call(partial(leader.eval, "rabbit:stop()"))
    await trio.sleep(stage.moment())
    for step in ("rabbit:start()", "rabbit:await_startup()"):
        await stage.call(partial(leader.eval, step))


async def _start_all(stage: Stage, nodes: list[RabbitNode]) -> None:
    """Start them at once: one alone may wait for the others' tables."""
    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(stage.call, node.start)


CLUSTER_TROUBLES: Final = (
    Trouble("leader's node lost", partial(_lose, first=0, last=0), CLUSTER),
    Trouble("another node lost", partial(_lose, first=1, last=1), CLUSTER),
    Trouble("majority lost and back", partial(_lose, first=0, last=1), CLUSTER),
    Trouble("leader's application stopped", _stop_leader_app, CLUSTER),
)
