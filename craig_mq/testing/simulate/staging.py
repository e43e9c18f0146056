"""How a run is set up so that the operation of its target happens in the part of a life it names.

Most operations happen by themselves while a subscription runs. While it starts, or drains, they need
an arm that is held up, a handler that keeps the drain waiting, a connection to be opened again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from craig_mq.testing.simulate.scenario import Act, Behaviour, Letter, Target, connection_name
from craig_mq.transport.memory import Block, Fault, Operation, Raise

_OPENING = frozenset(
    {Operation.CONNECT, Operation.OPEN_CHANNEL, Operation.DECLARE, Operation.BIND, Operation.CONSUME}
)
_GIVING_BACK = frozenset({Operation.CANCEL, Operation.NACK})
_DRAIN_S = 2.0


@attrs.define(slots=True)
class Stage:
    """What is added to a run, or fixed in it; ``options`` and ``config`` are those of every replica."""

    acts: list[Act] = attrs.Factory(list[Act])
    letters: list[Letter] = attrs.Factory(list[Letter])
    faults: list[Fault] = attrs.Factory(list[Fault])
    options: dict[str, object] = attrs.Factory(dict[str, object])
    config: dict[str, object] = attrs.Factory(dict[str, object])
    replicas: int | None = None
    plain: bool = False

    def letters_at(self, at: float, count: int, *behaviours: Behaviour) -> None:
        """Add letters whose first invocations go like this."""
        self.letters += [Letter(at, "tokened", behaviours) for _ in range(count)]


def stage_for(target: Target, chance: random.Random) -> Stage:
    """Return what makes the target's operation probable, often certain, in its part of life."""
    stage = Stage()
    at = chance.uniform(2.5, 5.5)
    _STAGES[target.lifecycle](stage, target, at)
    if target.fault.on in _GIVING_BACK and target.role == "main" and target.lifecycle != "draining":
        _block_publishing(stage, at)
    if target.fault.on in _GIVING_BACK and target.role == "parking":
        stage.config["parking_ttl"] = 5  # what is not due soon is given back
        stage.options["parking_hold_limit"] = 0.5
    if target.fault.on is Operation.RETURN:
        _lose_the_way(stage, target.role, at)
    return stage


def _starting(stage: Stage, target: Target, at: float) -> None:
    """Hold the other arm up, so that this one works while the whole still starts."""
    if target.role == "depth":
        # It dials once the start is decided: refused, the subscription goes on starting meanwhile.
        stage.acts += [Act(at, "forbid declaring", 9.0), Act(at + 0.1, "cancel")]
        stage.replicas = 1
        return
    if target.role.endswith("permission"):
        stage.options["return_route"] = "exchange"  # else the parking arm has nothing to ask
        return
    parking = target.role.startswith("parking")
    other = "main" if parking else "parking"
    stage.faults.append(Fault("connect", Raise(), connection=connection_name(other), times=None))
    stage.options["start_timeout"] = None
    stage.config["parking_ttl"] = 1
    if target.fault.on is Operation.CLOSE:
        stage.acts.append(Act(at, f"kick {'parking' if parking else 'main'}"))
        stage.letters_at(0.5, 1, "park")
    if parking:
        stage.replicas = 2  # the other replica parks what this one's parking arm takes
        stage.letters_at(0.5, 3, "park", "park")
        stage.letters_at(at, 3, "park", "park")


def _running(stage: Stage, target: Target, at: float) -> None:
    if target.fault.on in _OPENING | {Operation.CLOSE} and not target.role.endswith("permission"):
        stage.acts.append(Act(at, f"kick {target.role.removesuffix(' publishing')}"))
    if target.fault.on is Operation.CLOSE and target.role == "parking publishing":
        stage.config["parking_ttl"] = 1  # it has published by the time of the kick
        stage.options["parking_hold_limit"] = 20
    stage.letters_at(0.5, 2, "park")
    stage.letters_at(at - 1, 1, "park")


def _draining(stage: Stage, target: Target, at: float) -> None:
    """Keep the main arm draining for a while; the parking arm and the sampler work on meanwhile."""
    arm = target.role.removesuffix(" publishing")
    stage.replicas = 1
    stage.options |= {"drain_timeout": _DRAIN_S, "prefetch": 8, "concurrency": 2, "backoff_base": 0.5}
    stage.config["parking_ttl"] = 1
    stage.acts.append(Act(at, "shut down"))
    if arm == "main":
        stage.config["handler_attempts"] = 3
        stage.letters_at(at - 0.1, 2, "retry", "retry")  # asleep when the shutdown comes
    stage.letters_at(at - 0.1, 1, "hang")
    if arm == "main":
        stage.letters_at(at - 0.1, 1, "late park" if target.role == "main publishing" else "slow")
        stage.plain = target.fault.on in _OPENING
        if target.fault.on is Operation.DELIVER:
            stage.options["queue_type"] = "quorum"
        stage.letters_at(at - 0.05, 2)
        stage.letters_at(at + 0.2, 2)
        return
    if arm == "depth":
        stage.config["depth_sample_interval"] = 1
        stage.acts.append(Act(at + 0.05, "delete quarantine"))  # looking for it closes the channel
    elif target.fault.on in _OPENING:
        stage.acts.append(Act(at + 0.1, f"kick {arm}"))
    if target.fault.on in _GIVING_BACK:
        stage.plain = True  # nothing is parked before: it arrives while the main arm drains
        stage.letters_at(at - 0.15, 1, "late park")
        return
    stage.letters_at(at - 1.6, 1, "park")
    stage.letters_at(at - 0.2, 3, "park")


def _block_publishing(stage: Stage, at: float) -> None:
    """Let the publishing connection be blocked while the consumer holds letters that nobody has begun."""
    publishing = connection_name("main publishing")
    stage.faults.append(Fault("publish", Block(0.7), connection=publishing, times=None, probability=0.5))
    stage.options |= {"prefetch": 8, "concurrency": 1}
    stage.letters_at(at, 6, "park")


def _lose_the_way(stage: Stage, role: str, at: float) -> None:
    """Let publishes of this role be unroutable: parking is gone, or nothing is bound to the exchange."""
    stage.options |= {"stable_after": 10, "backoff_base": 0.5}  # so long nobody declares it again
    if role == "main publishing":
        stage.acts.append(Act(at - 0.05, "delete parking"))
        stage.letters_at(at - 0.04, 2, "late park", "park")
    else:
        stage.options["return_route"] = "exchange"
        stage.acts.append(Act(at + 0.05, "unbind"))
        stage.letters_at(at - 0.8, 3, "park")


_STAGES: Final[Mapping[str, Callable[[Stage, Target, float], None]]] = MappingProxyType(
    {"starting": _starting, "running": _running, "draining": _draining}
)
