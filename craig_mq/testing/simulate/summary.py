"""What one run amounts to, in numbers and words alone: it can cross from one process to another."""

from __future__ import annotations

import attrs

from craig_mq.testing.simulate.evidence import Evidence, Violation


@attrs.define(frozen=True, slots=True)
class Summary:
    """One run. ``hits`` are its strikes as (operation, action, role, part of life), by name."""

    seed: int
    letters: int
    virtual_s: float
    hits: tuple[tuple[str, str, str, str], ...]
    acts: tuple[str, ...]
    violations: tuple[tuple[str, str], ...]


@attrs.define(frozen=True, slots=True)
class Broken:
    """A run that came to no result: ``why`` says what it raised, how its process died, or that it hung."""

    seed: int
    why: str


def summary_of(evidence: Evidence, violations: list[Violation]) -> Summary:
    """Return the numbers of a run and the words of its violations."""
    return Summary(
        evidence.scenario.seed,
        len(evidence.scenario.letters),
        evidence.seconds,
        tuple(
            (
                struck.strike.occurrence.operation.value,
                type(struck.strike.action).__name__,
                struck.role,
                struck.lifecycle,
            )
            for struck in evidence.struck
        ),
        evidence.acts_done,
        tuple((violation.invariant, violation.text) for violation in violations),
    )
