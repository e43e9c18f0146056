"""From a seed to a scenario: workload, configuration, faults and operators, drawn at random."""

from __future__ import annotations

import random
from typing import Any

import attrs

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.testing.simulate.acts import ACTS
from craig_mq.testing.simulate.faulting import draw_disturbance, draw_fault
from craig_mq.testing.simulate.scenario import Act, Behaviour, Letter, Replica, Scenario, Shape, Target
from craig_mq.testing.simulate.staging import Stage, stage_for
from craig_mq.transport.memory import FaultPlan

CALM_AFTER_S = 10.0
LARGE_LIMIT_BYTES = 66_200
_PROFILES = ("3.10", "3.13", "4.0", "4.3")
_SHAPES: tuple[Shape, ...] = (
    "tokened",
    "tokened",
    "tokened",
    "tokened",
    "tokened",
    "tokenless",
    "malformed",
    "stray",
)
_BEHAVIOURS: tuple[Behaviour, ...] = (
    "retry",
    "retry",
    "park",
    "park",
    "permanent",
    "crash",
    "slow",
    "slow",
    "late park",
    "hang",
)


def draw(seed: int, target: Target | None = None) -> Scenario:
    """Return the scenario of a seed; ``target`` is one more fault, for a state that must be met."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    with_large = chance.random() < 0.03  # noqa: PLR2004 - they are slow
    quorum = chance.random() < 0.2  # noqa: PLR2004
    profile = chance.choice(_PROFILES)
    acts = [_act(chance) for _ in range(chance.choice((0, 0, 0, 0, 0, 1, 2)))]
    faults = [draw_fault(chance) for _ in range(chance.choice((0, 0, 1, 1, 2)))]
    faults += [draw_disturbance(chance)]
    stage = Stage() if target is None else stage_for(target, chance)
    bursts = tuple(chance.uniform(0, 9) for _ in range(2))
    letters = [_letter(chance, bursts, plain=stage.plain) for _ in range(chance.randint(14, 26))]
    letters += [_caught(chance, act.at) for act in acts if act.kind == "shut down"]
    letters = letters[len(stage.letters) :] + stage.letters
    if with_large:
        letters.append(Letter(chance.uniform(0, 8), "large", ("park",), poison=True))
    return Scenario(
        seed,
        profile,
        tuple(_replica(chance, stage, quorum=quorum, at=at) for at in _arrivals(chance, stage)),
        tuple(letters),
        (*acts, *stage.acts),
        FaultPlan((*stage.faults, *faults), seed),
        target,
        CALM_AFTER_S,
        LARGE_LIMIT_BYTES if with_large else None,
    )


def _letter(chance: random.Random, bursts: tuple[float, ...], *, plain: bool) -> Letter:
    """Most letters succeed at once: faults, not failures, are what most runs are about."""
    at = chance.choice((0.0, *bursts, *bursts, chance.uniform(0, 9)))
    if plain:
        return Letter(at)
    behaviours: tuple[Behaviour, ...] = ()
    if chance.random() < 0.25:  # noqa: PLR2004
        behaviours = tuple(chance.choices(_BEHAVIOURS, k=chance.randint(1, 3)))
    poison = bool(behaviours) and behaviours[-1] in ("park", "retry", "crash") and chance.random() < 0.1  # noqa: PLR2004
    return Letter(at, chance.choice(_SHAPES), behaviours, poison)


def _caught(chance: random.Random, at: float) -> Letter:
    """A letter whose handler is at work, or sleeping before its retry, when something happens ``at``."""
    behaviours: tuple[Behaviour, ...] = chance.choice((("slow",), ("retry", "retry"), ("hang",)))
    return Letter(max(0.0, at - chance.uniform(0, 0.3)), "tokened", behaviours)


def _act(chance: random.Random) -> Act:
    return Act(
        chance.uniform(0.5, 9),
        chance.choice((*ACTS, "shut down", "shut down")),
        chance.choice((0.5, 2.0, 5.0)),
    )


def _arrivals(chance: random.Random, stage: Stage) -> tuple[float, ...]:
    if stage.replicas is not None:
        return (0.0,) * stage.replicas
    return chance.choice((*((0.0,),) * 9, (0.0, chance.choice((0.0, chance.uniform(1, 6))))))


def _replica(chance: random.Random, stage: Stage, *, quorum: bool, at: float) -> Replica:
    config = DlqRetryConfig(
        parking_ttl=chance.choice((1, 2, 5)),
        park_cap=chance.randint(1, 3),
        handler_attempts=chance.randint(1, 3),
        depth_sample_interval=chance.choice((4, *(600,) * 7)),
    )
    options = SubscriptionOptions(
        prefetch=chance.choice((1, 4, 8, 8)),
        concurrency=chance.choice((1, 2, 4, 4)),
        handler_timeout=2,
        drain_timeout=chance.choice((0, 2)),
        start_timeout=chance.choice((5, None)),
        connect_timeout=2,
        rpc_timeout=2,
        confirm_timeout=3,
        settle_timeout=1,
        abort_grace=0.5,
        heartbeat=chance.choice((1, 3)),
        parking_hold_limit=chance.choice((0.5, 2, 20)),
        return_route=chance.choice(("exchange", "queue")),
        queue_type="quorum" if quorum else "classic",
        backoff_base=chance.choice((0.5, 1)),
        backoff_cap=4,
        stable_after=chance.choice((2, 10)),
    )
    # Evolving converts and validates again, as the constructor does.
    changed: Any = attrs.evolve
    config = changed(config, **stage.config) if stage.config else config
    options = changed(options, **stage.options) if stage.options else options
    return Replica(at, config, options)
