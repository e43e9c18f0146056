"""What the demo publishes: a seeded mix of dead letters, each with the home it must end in.

Every publication has an id of its own, carried as ``message_id`` and, where there is an envelope, in
its payload, so that the account can name each message without trusting the runtime.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import json
import random
import uuid

import attrs

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.token import inbox_token

OCCURRED_AT = "2026-01-01T00:00:00Z"
OVERSIZE_BYTES = 13 * 1024 * 1024
# The share of each kind in a hundred; what is left over succeeds at once.
_SHARES = {
    "flaky": 12,
    "outage": 20,
    "permanent": 8,
    "malformed": 6,
    "noncanonical": 4,
    "capped": 2,
    "duplicate": 8,
}


class Kind(enum.Enum):
    """What a message does to its handler; the value is its event type's last part."""

    OK = "ok"
    FLAKY = "flaky"
    OUTAGE = "outage"
    PERMANENT = "permanent"
    MALFORMED = "malformed"
    NONCANONICAL = "noncanonical"
    CAPPED = "capped"
    DUPLICATE = "duplicate"
    OVERSIZE = "oversize"


class Home(enum.Enum):
    """Where a message must be found in the end."""

    AUDIT = "audit"
    QUARANTINE = "quarantine"


_HOMES = {
    Kind.PERMANENT: Home.QUARANTINE,
    Kind.MALFORMED: Home.QUARANTINE,
    Kind.NONCANONICAL: Home.QUARANTINE,
    Kind.CAPPED: Home.QUARANTINE,
    Kind.OVERSIZE: Home.QUARANTINE,
}


@attrs.define(frozen=True, slots=True)
class Planned:
    """One publication: its id, what it is, and the exact bytes."""

    publication_id: str
    kind: Kind
    envelope_id: str | None
    token: str | None
    publication: Publication

    @property
    def home(self) -> Home:
        """Where it must end."""
        return _HOMES.get(self.kind, Home.AUDIT)


def plan_mix(messages: int, seed: int, *, queue: str, routing_key: str) -> list[Planned]:
    """Plan ``messages`` publications (at least 20), the same for the same seed.

    One of them is an oversize body; duplicates come in pairs of equal token and content.
    """
    chance = random.Random(seed)  # noqa: S311 - a seeded mix, not a secret
    kinds = [Kind(name) for name, share in _SHARES.items() for _ in range(max(2, messages * share // 100))]
    kinds = [Kind.OVERSIZE, *kinds][:messages]
    kinds += [Kind.OK] * (messages - len(kinds))
    chance.shuffle(kinds)
    planned: list[Planned] = []
    twin: Planned | None = None
    for kind in kinds:
        if kind is Kind.DUPLICATE and twin is not None:
            planned.append(_copy_of(twin, chance))
            twin = None
            continue
        new = _plan(kind, chance, queue=queue, routing_key=routing_key)
        twin = new if kind is Kind.DUPLICATE else twin
        planned.append(new)
    return planned


def _plan(kind: Kind, chance: random.Random, *, queue: str, routing_key: str) -> Planned:
    publication_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    if kind is Kind.MALFORMED:
        body = b"\xff\xfe not an envelope " + publication_id.encode()
        return Planned(
            publication_id, kind, None, None, _publication("craig.dlx", routing_key, body, publication_id)
        )
    envelope_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    token = inbox_token(envelope_id, "demo.work", OCCURRED_AT)
    body = _envelope(kind, envelope_id, token, publication_id, chance)
    # The default exchange routes by queue name: such a key cannot return through craig.dlx.
    exchange, key = ("", queue) if kind is Kind.NONCANONICAL else ("craig.dlx", routing_key)
    return Planned(
        publication_id, kind, envelope_id, token, _publication(exchange, key, body, publication_id)
    )


def _copy_of(first: Planned, chance: random.Random) -> Planned:
    publication_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    original = first.publication
    copy = _publication(original.exchange, original.routing_key, original.body, publication_id)
    return Planned(publication_id, first.kind, first.envelope_id, first.token, copy)


def _publication(exchange: str, routing_key: str, body: bytes, publication_id: str) -> Publication:
    properties = Properties(content_type="application/json", delivery_mode=2, message_id=publication_id)
    return Publication(exchange, routing_key, body, properties)


def _envelope(kind: Kind, envelope_id: str, token: str, publication_id: str, chance: random.Random) -> bytes:
    payload: dict[str, object] = {"publication": publication_id, "amount": chance.randrange(10_000)}
    if kind is Kind.OVERSIZE:
        payload["blob"] = _incompressible(OVERSIZE_BYTES, publication_id)
    document = {
        "id": envelope_id,
        "source_service": "demo",
        "event_type": f"demo.{kind.value}",
        "occurred_at": OCCURRED_AT,
        "payload": payload,
        "_dlx": {
            "token": token,
            "queue": "demo.work",
            "reason": "handler_failed",
            "failed_at": OCCURRED_AT,
            "error": "demo",
        },
    }
    return json.dumps(document).encode()


def _incompressible(size: int, seed: str) -> str:
    """Text that even the compressed embed cannot bring under the capture limit."""
    raw = hashlib.shake_256(seed.encode()).digest(size * 3 // 4)
    return base64.b64encode(raw).decode()
