"""What operators do to a broker and its subscribers, and how each is undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from craig_mq.core.envelope import decode_envelope
from craig_mq.core.redrive import Redriven as RedrivenCapture
from craig_mq.core.redrive import redrive
from craig_mq.testing.simulate.letters import letter_in
from craig_mq.testing.simulate.notes import QueueDeleted, Redriven
from craig_mq.testing.simulate.scenario import PARKING, QUARANTINE, QUEUE, Act, connection_name
from craig_mq.transport.memory import Drop, Policy, Reorder

if TYPE_CHECKING:
    from craig_mq.testing.simulate.world import World

Undo = Callable[[], None] | None


def perform(world: World, act: Act) -> Undo:
    """Do it; return what undoes it ``argument`` seconds later, None where nothing does."""
    return ACTS[act.kind](world, act.argument)


def _crash(world: World, _: float) -> Undo:
    world.broker.crash(returning_acks=world.chance.randrange(4))
    world.down = True
    return lambda: _restart(world)


def _stop(world: World, _: float) -> Undo:
    world.broker.stop()
    world.down = True
    return lambda: _restart(world)


def _restart(world: World) -> None:
    world.broker.restart()
    world.down = False


def _alarm(world: World, _: float) -> Undo:
    world.broker.alarm(on=True)
    return lambda: world.broker.alarm(on=False)


def _delete(queue: str) -> Callable[[World, float], Undo]:
    def delete(world: World, _: float) -> Undo:
        world.broker.note(QueueDeleted(queue))
        world.broker.delete_queue(queue)
        return None

    return delete


def _delete_exchange(world: World, _: float) -> Undo:
    world.broker.delete_exchange("craig.dlx")
    return None


def _unbind(world: World, _: float) -> Undo:
    world.broker.unbind("craig.dlx", QUEUE, "dlq.#")
    return None


def _refuse_publishes(world: World, _: float) -> Undo:
    policy = Policy("^sim", {"max-length": 1, "overflow": "reject-publish"})
    world.broker.set_policies(full=policy)
    return world.broker.set_policies


def _forbid_writing(world: World, _: float) -> Undo:
    world.broker.set_permissions(write="^nothing$")
    return world.broker.set_permissions


def _forbid_declaring(world: World, _: float) -> Undo:
    world.broker.set_permissions(configure="^nothing$")
    return world.broker.set_permissions


def _limit_connections(world: World, _: float) -> Undo:
    world.broker.set_connection_limit(2)
    return lambda: world.broker.set_connection_limit(None)


def _kick(world: World, _: float) -> Undo:
    for name in set(world.broker.connections):
        world.broker.close_connection(name)
    return None


def _kick_role(role: str) -> Callable[[World, float], Undo]:
    def kick(world: World, _: float) -> Undo:
        world.broker.close_connection(connection_name(role))
        return None

    return kick


def _freeze(world: World, _: float) -> Undo:
    names = set(world.broker.connections)
    for name in names:
        world.broker.freeze(name)

    def thaw() -> None:
        for name in names:
            world.broker.thaw(name)

    return thaw


def _step_clock(world: World, argument: float) -> Undo:
    world.wall_step += 40 * (argument - 2)
    return None


def _shut_down(world: World, _: float) -> Undo:
    world.chance.choice(world.subscribers).shutdown()
    return None


def _cancel(world: World, _: float) -> Undo:
    world.chance.choice(world.subscribers).cancel()
    return None


def _redrive(world: World, _: float) -> Undo:
    """Send every quarantined letter back, as the operator's tool does: publish first, then take away."""
    broker = world.broker
    if QUARANTINE not in broker.queues or world.down:
        return None
    bodies = broker.queue(QUARANTINE).bodies
    kept: list[bytes] = []
    for body in bodies:
        again = redrive(decode_envelope(body))
        number = letter_in(body)
        if isinstance(again, RedrivenCapture) and number is not None:
            broker.note(Redriven(number))
            world.publish(("", QUEUE), again.body)
        else:
            kept.append(body)
    broker.purge(QUARANTINE)
    for body in kept:
        world.publish(("", QUARANTINE), body)
    return None


ACTS: dict[str, Callable[[World, float], Undo]] = {
    "crash": _crash,
    "stop": _stop,
    "alarm": _alarm,
    "delete main": _delete(QUEUE),
    "delete parking": _delete(PARKING),
    "delete quarantine": _delete(QUARANTINE),
    "delete exchange": _delete_exchange,
    "unbind": _unbind,
    "refuse publishes": _refuse_publishes,
    "forbid writing": _forbid_writing,
    "forbid declaring": _forbid_declaring,
    "limit connections": _limit_connections,
    "kick": _kick,
    "kick main": _kick_role("main"),
    "kick parking": _kick_role("parking"),
    "kick depth": _kick_role("depth"),
    "freeze": _freeze,
    "step clock": _step_clock,
    "shut down": _shut_down,
    "cancel": _cancel,
    "redrive": _redrive,
}


def calm(world: World) -> None:
    """Undo whatever is still in force: from here on nothing goes wrong any more."""
    broker = world.broker
    strikes = broker.strikes
    broker.inject(None)
    if world.down:
        _restart(world)
    broker.alarm(on=False)
    broker.set_policies()
    broker.set_permissions()
    broker.set_connection_limit(None)
    # What an operator takes away under a live session is missed, and repaired, by the next one only.
    broker.declare_exchange("craig.dlx")
    if QUEUE in broker.queues:
        broker.bind("craig.dlx", QUEUE, "dlq.#")
    if any(isinstance(strike.action, Drop | Reorder) for strike in strikes):
        for name in set(broker.connections):
            # A stream in which something was dropped is no TCP stream any more: it ends here.
            broker.close_connection(name)
