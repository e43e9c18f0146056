"""What counts as a readable JSON body, by one rule everywhere (decisions, the formats).

UTF-8 without BOM, one document, unique names at the top level, bounded nesting. msgspec's raw
reader checks the grammar of everything it skips (numbers, escapes, lone surrogates, NaN); it does
not check UTF-8, repeated names, or a depth that is the same on every call stack. This module does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

import msgspec

from craig_mq.core.errors import MalformedBody

# The reader's own limit depends on how deep the caller's stack is; ours does not. It leaves room
# for the wrapper's three levels below the interpreter's 1,000 (field failure BODY-06).
MAX_NESTING = 512

_WHITESPACE = b" \t\r\n"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def require_text(body: bytes) -> None:
    """Raise MalformedBody unless ``body`` is UTF-8 within MAX_NESTING levels."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise MalformedBody(f"not UTF-8: {error.reason} at byte {error.start}") from None
    if body.count(b"[") + body.count(b"{") > MAX_NESTING and _depth(body) > MAX_NESTING:
        raise MalformedBody(f"nested deeper than {MAX_NESTING} levels")


def members(document: bytes) -> dict[str, msgspec.Raw]:
    """Read one JSON object into its raw values. Raises MalformedBody; ``document`` passed require_text."""
    try:
        return _members.decode(document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedBody(str(error)) from None


def has_repeated_names(document: bytes, values: dict[str, msgspec.Raw]) -> bool:
    """Whether the object ``document``, read as ``values``, spells a name twice at its top level.

    The reader keeps one value a name, so a repeated member is bytes nobody accounts for. Without
    escapes in names, every byte outside whitespace belongs to a kept member or to punctuation.
    """
    kept = b"".join(map(bytes, values.values()))
    names = "".join(values).encode()
    punctuation = 4 * len(values) + 1 if values else 2
    accounted = _dense(kept) + _dense(names) + punctuation
    if _dense(document) == accounted:
        return False
    names_in_order = list(names_of(document))
    return len(set(names_in_order)) != len(names_in_order)


def names_of(document: bytes) -> Iterable[str]:
    """Yield the top-level names of a valid JSON object in order, repeats included."""
    depth, pending = 0, None
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}:]', document, re.DOTALL):
        text = token[0]
        if text[0] in _STEP:
            depth += _STEP[text[0]]
        elif depth == 1 and text == b":" and pending is not None:
            yield msgspec.json.decode(pending, type=str)
        pending = text if depth == 1 and text[:1] == b'"' else None


def _dense(data: bytes) -> int:
    return len(data.translate(None, _WHITESPACE))


def _depth(body: bytes) -> int:
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
