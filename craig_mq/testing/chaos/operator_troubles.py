"""Troubles that people make: queues deleted and purged, permissions taken, policies set."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Final

import msgspec
import trio

from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE, BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.testing.chaos.account import number_in
from craig_mq.testing.chaos.stage import APPLIED_S, PARKING, QUEUE, Stage, undone
from craig_mq.testing.chaos.trouble import Trouble
from craig_mq.testing.chaos.workload import ROUTING_KEY
from craig_mq.transport.broker import Channel

UNROUTED: Final = "chaos.unrouted"
_BINDING: Final = BindingSpec(DEAD_LETTER_EXCHANGE, QUEUE, ROUTING_KEY)
_SIBLINGS: Final = r"^chaos\\.dlq\\.(parking|quarantine)$"
_EVERYTHING: Final = ".*"
_NOTHING: Final = "^(?!chaos|craig).*$"
_SHORT: Final = 20
_PATIENCE_S: Final = 10.0
_QUIET_LOOKS: Final = 5
"""So often in a row a queue must be empty: requeues of a connection just closed trickle in."""


async def _close_connections(stage: Stage) -> None:
    await stage.eval(
        '[rabbit_networking:close_connection(P, "chaos") || P <- rabbit_networking:connections()]'
    )


async def _destroy(stage: Stage, queue: str, *, delete: bool) -> None:
    """Delete or purge a queue with what is in it, accounting for each message that dies.

    A purge is an order, not a loss: the account must tell one from the other by number. So the flow is
    stopped first (else messages in hand, or confirmed for a queue that is just being deleted, would die
    unseen), and what is in the queue is taken and counted before it is destroyed.
    """
    async with stage.producer.quiet:
        await _until_short(stage, queue)
        stage.proxy.freeze()
        try:
            await _close_connections(stage)
            async with stage.operator() as channel:
                stage.destroyed |= await _take_all(channel, queue)
                if delete and (unseen := await channel.delete_queue(queue)):
                    raise RuntimeError(f"{unseen} messages died unaccounted with {queue}")
        finally:
            stage.proxy.thaw()
            stage.proxy.reset()


async def _until_short(stage: Stage, queue: str) -> None:
    """Wait until little is left to destroy, or give up: what dies here proves nothing any more."""
    async with stage.operator() as channel:
        with trio.move_on_after(_PATIENCE_S):  # noqa: ASYNC912 - the declare
            while True:
                if (await channel.declare_queue(QueueSpec(queue), passive=True)).ready <= _SHORT:
                    break
                await trio.sleep(0.05)


async def _take_all(channel: Channel, queue: str) -> set[int]:
    """Take and ack everything until nothing comes back any more; return the numbers of the messages."""
    numbers: set[int] = set()
    quiet = 0
    while quiet < _QUIET_LOOKS:
        tag = 0
        while (delivery := await channel.get(queue)) is not None:
            numbers.add(number_in(delivery.body))
            tag = delivery.delivery_tag
        quiet = 0 if tag else quiet + 1
        if tag:
            channel.ack_nowait(tag, multiple=True)
        await trio.sleep(0.1)
    return numbers  # noqa: ASYNC910 - it looks and sleeps at least once


async def _forbid(stage: Stage, right: str) -> None:
    rights: dict[str, str] = dict.fromkeys(("configure", "write", "read"), _EVERYTHING)
    async with undone(partial(_permit, stage, rights)):
        await _permit(stage, rights | {right: _NOTHING})
        stage.proxy.reset()
        await trio.sleep(stage.moment())


async def _permit(stage: Stage, rights: dict[str, str]) -> None:
    await stage.call(partial(stage.node.set_permissions, "/", **rights))


async def _reject_publishes(stage: Stage) -> None:
    """Fill the siblings. In two steps: a policy that sets both at once drops heads before it refuses."""
    async with undone(partial(_unset_policy, stage, "full")):
        for limit in (1_000_000, 0):
            definition = f'{{<<"max-length">>, {limit}}}, {{<<"overflow">>, <<"reject-publish">>}}'
            await _set_policy(stage, "full", _SIBLINGS, definition, "queues")
            await trio.sleep(APPLIED_S)
        await trio.sleep(stage.moment())


async def _divert(stage: Stage) -> None:
    """Take the binding while an alternate exchange makes `mandatory` blind.

    Whoever sets such a policy has to put back what goes astray; so this operator does.
    """
    async with stage.operator() as channel:
        await channel.declare_exchange(ExchangeSpec(UNROUTED, kind="fanout"))
        await channel.declare_queue(QueueSpec(UNROUTED, arguments={"x-queue-type": "classic"}))
        await channel.bind_queue(BindingSpec(UNROUTED, UNROUTED, ""))
        async with undone(partial(_unset_policy, stage, "alternate")):
            definition = f'{{<<"alternate-exchange">>, <<"{UNROUTED}">>}}'
            await _set_policy(stage, "alternate", f"^{DEAD_LETTER_EXCHANGE}$", definition, "exchanges")
            await trio.sleep(APPLIED_S)
            async with undone(partial(channel.bind_queue, _BINDING)):
                await channel.unbind_queue(_BINDING)
                await trio.sleep(stage.moment())
        await _put_back(channel)


async def _put_back(channel: Channel) -> None:
    while (delivery := await channel.get(UNROUTED)) is not None:
        properties = msgspec.structs.replace(delivery.properties, message_id=str(uuid.uuid4()))
        confirmation = await channel.publish(
            Publication(DEAD_LETTER_EXCHANGE, delivery.routing_key, delivery.body, properties)
        )
        if not isinstance(confirmation, Acked):
            raise RuntimeError(  # noqa: TRY004 - an outcome, not a type
                f"what went astray could not be put back: {confirmation}"
            )
        channel.ack_nowait(delivery.delivery_tag)


async def _set_policy(stage: Stage, name: str, pattern: str, definition: str, applies_to: str) -> None:
    await stage.eval(
        f'rabbit_policy:set(<<"/">>, <<"{name}">>, <<"{pattern}">>, [{definition}], 0,'
        f' <<"{applies_to}">>, <<"chaos">>)'
    )


async def _unset_policy(stage: Stage, name: str) -> None:
    await stage.eval(f'rabbit_policy:delete(<<"/">>, <<"{name}">>, <<"chaos">>)')


OPERATOR_TROUBLES: Final = (
    Trouble("connections closed by the operator", _close_connections),
    Trouble("publishes rejected (queue full)", _reject_publishes),
    Trouble("parking queue deleted", partial(_destroy, queue=PARKING, delete=True)),
    Trouble("write permission taken", partial(_forbid, right="write")),
    Trouble("alternate exchange by policy", _divert),
    Trouble("main queue deleted", partial(_destroy, queue=QUEUE, delete=True)),
    Trouble("read permission taken", partial(_forbid, right="read")),
    Trouble("main queue purged", partial(_destroy, queue=QUEUE, delete=False)),
    Trouble("configure permission taken", partial(_forbid, right="configure")),
)
