"""Occurrence tokens: one dead-letter occurrence, one string (decisions, the formats).

Grammar: ``occ1:<producer>:<32 lowercase hex>``, producer ``broker`` (derived from x-death) or
``inbox`` (minted by an explicit producer). Only this exact spelling is a token (field failure
UUID-01); a valid one travels verbatim.
"""

from __future__ import annotations

import hashlib
import re

_TOKEN = re.compile(r"occ1:(?:broker|inbox):[0-9a-f]{32}")


def is_token(text: str) -> bool:
    """Whether ``text`` is exactly one occurrence token."""
    return _TOKEN.fullmatch(text) is not None


def broker_token(envelope_id: str, queue: str, reason: str, count: int, time_s: int) -> str:
    """Derive the token of a broker-made dead letter from its envelope and x-death[0].

    A redelivery of the same occurrence gives the same token. Named bound: x-death's time has 1 s
    resolution, so it is one occurrence per envelope, queue and second. The id counts in lower case:
    two spellings of one UUID are one envelope.
    """
    return "occ1:broker:" + _digest(envelope_id.lower(), queue, reason, str(count), str(time_s))


def inbox_token(envelope_id: str, queue: str, failed_at: str) -> str:
    """Derive the token an explicit dead-letter producer mints for one failure in ``queue``."""
    return "occ1:inbox:" + _digest(envelope_id.lower(), queue, failed_at)


def _digest(*parts: str) -> str:
    # Netstrings: no two different lists of parts spell the same bytes.
    spelled = "".join([f"{len(part)}:{part}," for part in parts])
    return hashlib.sha256(spelled.encode("utf-8", "surrogatepass")).hexdigest()[:32]
