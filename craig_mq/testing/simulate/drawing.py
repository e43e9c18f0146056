"""From a seed to a scenario: workload, configuration, faults and operators, drawn at random."""

from __future__ import annotations

import random

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.testing.simulate.acts import ACTS
from craig_mq.testing.simulate.faulting import draw_fault
from craig_mq.testing.simulate.scenario import QUEUE, Act, Behaviour, Letter, Replica, Scenario, Shape, Target
from craig_mq.transport.memory import Fault, FaultPlan, Raise

CALM_AFTER_S = 14.0
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
    "hang",
)


def draw(seed: int, target: Target | None = None) -> Scenario:
    """Return the scenario of a seed; ``target`` is one more fault, for a state that must be met."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    with_large = chance.random() < 0.03  # noqa: PLR2004 - they are slow
    quorum = chance.random() < 0.2  # noqa: PLR2004
    profile = chance.choice(_PROFILES)
    acts = [_act(chance) for _ in range(chance.choice((0, 0, 1, 1, 2)))]
    faults = [draw_fault(chance) for _ in range(chance.randint(1, 4))]
    if target is not None and target.lifecycle == "draining":
        acts += [Act(at + chance.uniform(0, 4), "shut down") for at in (2, 7)]
    elif target is not None and target.lifecycle == "starting":
        acts += [Act(chance.uniform(2, 10), chance.choice(("shut down", "cancel")))]
        faults.append(_held_up(target))
    letters = [_letter(chance) for _ in range(chance.randint(14, 28))]
    letters += [_caught(chance, act.at) for act in acts if act.kind == "shut down"]
    if with_large:
        letters.append(Letter(chance.uniform(0, 10), "large", ("park",), poison=True))
    return Scenario(
        seed,
        profile,
        tuple(_replica(chance, quorum=quorum, at=at) for at in _arrivals(chance)),
        tuple(letters),
        tuple(acts),
        FaultPlan(faults, seed),
        target,
        CALM_AFTER_S,
        LARGE_LIMIT_BYTES if with_large else None,
    )


def _held_up(target: Target) -> Fault:
    """Keep the other arm from starting for a while, so that this one works while the whole still starts."""
    other = "parking" if target.role.startswith("main") else "main"
    return Fault("connect", Raise(), connection=f"craig_mq {QUEUE} {other}", probability=0.8, times=6)


def _letter(chance: random.Random) -> Letter:
    """Most letters succeed at once: faults, not failures, are what most runs are about."""
    at = chance.choice((0.0, chance.uniform(0, 12), chance.uniform(3, 4)))
    behaviours: tuple[Behaviour, ...] = ()
    if chance.random() < 0.5:  # noqa: PLR2004
        behaviours = tuple(chance.choices(_BEHAVIOURS, k=chance.randint(1, 3)))
    poison = bool(behaviours) and behaviours[-1] in ("park", "retry", "crash") and chance.random() < 0.1  # noqa: PLR2004
    return Letter(at, chance.choice(_SHAPES), behaviours, poison)


def _caught(chance: random.Random, at: float) -> Letter:
    """A letter whose handler is at work, or sleeping before its retry, when something happens ``at``."""
    behaviours: tuple[Behaviour, ...] = chance.choice((("slow",), ("retry", "retry"), ("hang",)))
    return Letter(max(0.0, at - chance.uniform(0, 0.3)), "tokened", behaviours)


def _act(chance: random.Random) -> Act:
    return Act(
        chance.uniform(0.5, 12),
        chance.choice((*ACTS, "shut down", "shut down")),
        chance.choice((0.5, 2.0, 5.0)),
    )


def _arrivals(chance: random.Random) -> tuple[float, ...]:
    return chance.choice(((0.0,), (0.0,), (0.0,), (0.0, chance.choice((0.0, chance.uniform(1, 8))))))


def _replica(chance: random.Random, *, quorum: bool, at: float) -> Replica:
    config = DlqRetryConfig(
        parking_ttl=chance.choice((1, 2, 5)),
        park_cap=chance.randint(1, 3),
        handler_attempts=chance.randint(1, 3),
        depth_sample_interval=chance.choice((5, 600)),
    )
    options = SubscriptionOptions(
        prefetch=chance.choice((1, 4, 8)),
        concurrency=chance.choice((1, 2, 4)),
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
    return Replica(at, config, options)
