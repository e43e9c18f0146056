"""Judging arguments and policies of queues and exchanges; pure (ADR-059 §bounds, rabbitmq-facts 2, 6, 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from craig_mq.core.topology import QUORUM_DELIVERY_LIMIT
from craig_mq.operator.doctor.findings import Finding, Level

_TODO: Final = "remove it from the policy or the queue: the deployment guide forbids it on craig queues"

DESTRUCTIVE: Final[Mapping[str, str]] = {
    "message-ttl": "messages expire without a trace",
    "expires": "the queue is deleted with its messages when nobody consumes",
    "max-length": "the oldest message is destroyed, or publishes are refused, at this length",
    "max-length-bytes": "the oldest message is destroyed, or publishes are refused, at this size",
    "dead-letter-exchange": "messages can leave by the broker's own, at-most-once way",
    "overflow": "at a limit the oldest message is destroyed while its publisher gets a clean ack",
}
HARMLESS_OVERFLOW: Final = "reject-publish"


def judge_queue(name: str, settings: Mapping[str, object], *, quorum: bool) -> list[Finding]:
    """Judge a queue's effective settings, policy and arguments in one, names without ``x-``."""
    found = [
        Finding("destructive setting", name, Level.FAIL, f"{key} = {settings[key]}: {harm}", _TODO)
        for key, harm in DESTRUCTIVE.items()
        if key in settings and not _is_harmless(key, settings)
    ]
    if quorum:
        found.append(judge_delivery_limit(name, settings.get("delivery-limit")))
    return found or [Finding("destructive setting", name, Level.OK, "none")]


def _is_harmless(key: str, settings: Mapping[str, object]) -> bool:
    # A refused publish is a nack: loud, and nothing is lost (rabbitmq-facts, 9).
    refuses = settings.get("overflow") == HARMLESS_OVERFLOW
    return refuses and key in {"overflow", "max-length", "max-length-bytes"}


def judge_delivery_limit(name: str, limit: object) -> Finding:
    """Judge a quorum queue's delivery limit: the default deletes a message after 21 takes."""
    if limit == QUORUM_DELIVERY_LIMIT:
        return Finding("delivery limit", name, Level.OK, f"{limit}")
    words = "none is set: the broker's default applies" if limit is None else f"{limit}"
    return Finding(
        "delivery limit",
        name,
        Level.FAIL,
        f"{words}; a message taken more often is deleted, or goes to the tail where there is no limit",
        f"declare the queue anew with x-delivery-limit = {QUORUM_DELIVERY_LIMIT}",
    )


def judge_exchange(name: str, settings: Mapping[str, object]) -> Finding:
    """Judge an exchange's effective settings: an alternate exchange makes mandatory blind."""
    alternate = settings.get("alternate-exchange")
    if alternate is None:
        return Finding("alternate exchange", name, Level.OK, "none")
    return Finding(
        "alternate exchange",
        name,
        Level.FAIL,
        f"{alternate}: an unroutable message counts as routed, so its loss goes unseen",
        "remove alternate-exchange from the policy or the exchange",
    )
