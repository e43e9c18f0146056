"""The invariants, each with its checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from craig_mq.testing.simulate import handler_laws, session_laws, settlement_laws
from craig_mq.testing.simulate.evidence import Evidence, Violation
from craig_mq.testing.simulate.stories import Story, stories_of

Checker: TypeAlias = Callable[[Evidence, dict[int, Story]], Iterator[str]]

INVARIANTS: Final[Mapping[str, Checker]] = MappingProxyType(
    {
        "conservation": settlement_laws.conservation,
        "evidence before ack": settlement_laws.evidence_before_ack,
        "settled once": settlement_laws.settled_once,
        "drain settles": settlement_laws.drain_settles,
        "shutdown ends retries": handler_laws.no_retry_after_shutdown,
        "attempts per receipt": handler_laws.attempts_per_receipt,
        "total invocations": handler_laws.total_invocations,
        "explained copies": handler_laws.explained_copies,
        "park counts": handler_laws.park_counts,
        "no overlap": session_laws.no_overlap,
        "backoff law": session_laws.backoff,
        "progress": session_laws.progress,
        "nothing left behind": session_laws.nothing_left_behind,
    }
)


def check(evidence: Evidence) -> list[Violation]:
    """Return every violation, invariant by invariant."""
    stories = stories_of(evidence)
    return [
        Violation(name, text) for name, checker in INVARIANTS.items() for text in checker(evidence, stories)
    ]
