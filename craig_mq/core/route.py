"""Which routing keys can come back (decisions, 2)."""

from __future__ import annotations

from collections.abc import Sequence

from craig_mq.core.config import MAX_NAME_BYTES, ReturnRoute

CANONICAL_PREFIX = "dlq."


def is_canonical(routing_key: str, binding_keys: Sequence[str], return_route: ReturnRoute) -> bool:
    """Whether a return under ``routing_key`` would reach the dead-letter queue again.

    Through the exchange: it starts with ``dlq.``, fits the wire and matches one of the subscription's
    binding keys. Past it ("queue"): always.
    """
    if return_route == "queue":
        return True
    return (
        routing_key.startswith(CANONICAL_PREFIX)
        and fits_wire(routing_key)
        and any(matches(pattern, routing_key) for pattern in binding_keys)
    )


def fits_wire(routing_key: str) -> bool:
    """Whether AMQP can carry the key: 255 bytes of UTF-8. A capture may hold one that it can't.

    A producer may have written the capture, or the key was no UTF-8 and is spelled out in escapes.
    """
    return len(routing_key.encode("utf-8", "backslashreplace")) <= MAX_NAME_BYTES


def matches(pattern: str, routing_key: str) -> bool:
    """Whether a topic binding ``pattern`` matches: ``*`` is one word, ``#`` any number of words."""
    words = routing_key.split(".") if routing_key else []
    # reachable[i]: the pattern so far can consume exactly the first i words. No backtracking, so a
    # pattern of many '#' costs no more than its length times the key's.
    reachable = [True] + [False] * len(words)
    for part in pattern.split(".") if pattern else []:
        if part == "#":
            first = reachable.index(True) if True in reachable else len(reachable)
            reachable = [position >= first for position in range(len(reachable))]
        else:
            reachable = [False] + [
                reachable[position] and part in ("*", word) for position, word in enumerate(words)
            ]
    return reachable[-1]
