"""How letters look on the wire, and how to tell which letter some bytes are about."""

from __future__ import annotations

import base64
import random
import re
import string
import uuid
from functools import lru_cache

from craig_mq.core.delivery import PERSISTENT, Properties
from craig_mq.testing.simulate.scenario import QUEUE, Shape

LARGE_BODY_BYTES = 66_000
_OUTER_ID = re.compile(rb'"id":"51a70000-0000-4000-8000-([0-9a-f]{12})"')
_MALFORMED = re.compile(rb"\xffletter (\d+)$")
_EMBEDDED = re.compile(rb'"original_body_b64":"([^"]+)"')
DURABLE = Properties(delivery_mode=PERSISTENT)


@lru_cache(256)
def body_of(number: int, shape: Shape) -> bytes:
    """Return the body of letter ``number``."""
    if shape == "malformed":
        return b"\xffletter %d" % number
    document = (
        f'{{"id":"51a70000-0000-4000-8000-{number:012x}","source_service":"s","event_type":"t",'
        f'"occurred_at":"2026-01-02T03:04:05Z","payload":{_payload(shape)}'
    )
    if shape == "tokenless":
        return f"{document}}}".encode()
    token = f"occ1:inbox:{uuid.UUID(int=number).hex}"
    return (
        f'{document},"_dlx":{{"token":"{token}","queue":"q","reason":"handler",'
        f'"failed_at":"2026-01-02T03:04:06Z","error":"e"}}}}'
    ).encode()


def route_of(shape: Shape) -> tuple[str, str]:
    """Return the exchange and the routing key a letter is published to."""
    return ("", QUEUE) if shape == "stray" else ("craig.dlx", "dlq.s.t")


@lru_cache(512)
def letter_in(body: bytes) -> int | None:
    """Return the number of the letter that some bytes are, or are a capture of."""
    found = _OUTER_ID.search(body, 0, 200)
    if found is not None:
        return int(found[1], 16)
    embedded = _EMBEDDED.search(body)
    malformed = _MALFORMED.search(body if embedded is None else base64.b64decode(embedded[1]))
    return None if malformed is None else int(malformed[1])


@lru_cache(1)
def _noise() -> str:
    """Return text that hardly compresses, so that no embed of it fits where it does not."""
    alphabet = (string.ascii_letters + string.digits + string.punctuation).replace('"', "").replace("\\", "")
    return "".join(random.Random(1).choices(alphabet, k=LARGE_BODY_BYTES - 400))  # noqa: S311 - reproducible


def _payload(shape: Shape) -> str:
    return f'"{_noise()}"' if shape == "large" else "1"
