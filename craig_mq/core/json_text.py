"""What counts as a readable JSON body, by one rule everywhere (decisions, the formats).

UTF-8 without BOM, one document, unique names at the top level, bounded nesting. msgspec's raw
reader checks the grammar of everything it skips (numbers, escapes, lone surrogates, NaN); it does
not check UTF-8, repeated names, or a depth that is the same on every call stack. This module does.
"""

from __future__ import annotations

import re
from itertools import accumulate

import msgspec

from craig_mq.core.errors import MalformedBody

# The reader's own limit depends on how deep the caller's stack is; ours does not. It leaves room
# for the wrapper's three levels below the interpreter's 1,000 (field failure BODY-06).
MAX_NESTING = 512

# Possessive, and satisfied by the end of the text: linear also on hostile, unterminated strings.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class _Member:
    """A name that equals only itself, so that reading an object into a dict keeps every repeat."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def _as_member(_: type, name: str) -> _Member:
    return _Member(name)


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_every_member = msgspec.json.Decoder(dict[_Member, msgspec.Raw], dec_hook=_as_member)


def require_text(body: bytes) -> None:
    """Raise MalformedBody unless ``body`` is UTF-8 within MAX_NESTING levels."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise MalformedBody(f"not UTF-8: {error.reason} at byte {error.start}") from None
    if nests_deeper(body, MAX_NESTING):
        raise MalformedBody(f"nested deeper than {MAX_NESTING} levels")


def nests_deeper(body: bytes, levels: int) -> bool:
    """Whether the arrays and objects of a JSON text nest deeper than ``levels``."""
    if body.count(b"[") + body.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    return any(depth > levels for depth in accumulate(map(_STEP.__getitem__, brackets)))


def members(document: bytes) -> dict[str, msgspec.Raw]:
    """Read a JSON object, known to be valid, into its raw values."""
    return _members.decode(document)


def repeats_a_name(document: bytes) -> bool:
    """Whether a JSON object, known to be valid, spells a name twice at its top level."""
    names = [member.name for member in _every_member.decode(document)]
    return len(set(names)) != len(names)
