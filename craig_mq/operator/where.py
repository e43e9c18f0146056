"""Conditions on rows: ``reason=permanent``, ``error~timeout``, ``age>2h``, ``token=none``; all must hold.

``=`` and ``!=`` compare, ``~`` finds text whatever its case, ``>=``, ``<=``, ``>`` and ``<`` compare
numbers, sizes (``64KiB``) and ages (``90s``, ``15m``, ``2h``, ``7d``).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

from craig_mq.operator.errors import BadCondition
from craig_mq.operator.row import Row

NONE: Final = "none"

_TEXTS: Final[Mapping[str, Callable[[Row], str | None]]] = MappingProxyType(
    {
        "key": lambda row: row.key,
        "reason": lambda row: row.reason,
        "event_type": lambda row: row.event_type,
        "service": lambda row: row.service,
        "envelope_id": lambda row: row.envelope_id,
        "routing_key": lambda row: row.routing_key,
        "token": lambda row: row.token,
        "error_type": lambda row: row.error_type,
        "error": lambda row: row.error_text,
    }
)
_NUMBERS: Final[Mapping[str, Callable[[Row, float], float | None]]] = MappingProxyType(
    {
        "park_count": lambda row, _: row.park_count,
        "total_parks": lambda row, _: row.total_parks,
        "redrive_count": lambda row, _: row.redrive_count,
        "attempts": lambda row, _: row.attempts,
        "size": lambda row, _: row.size,
        "age": lambda row, now_s: None if row.at_s is None else now_s - row.at_s,
    }
)
FIELDS: Final = (*_TEXTS, *_NUMBERS)

_CONDITION: Final = re.compile(r"([a-z_]+)\s*(!=|>=|<=|=|~|>|<)\s*(.*)", re.DOTALL)
_ORDERS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {
        "=": operator.eq,
        "!=": operator.ne,
        ">=": operator.ge,
        "<=": operator.le,
        ">": operator.gt,
        "<": operator.lt,
    }
)
_QUANTITY: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*(s|m|h|d|B|KiB|MiB)?")
_UNITS: Final = MappingProxyType(
    {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "B": 1.0, "KiB": 1_024.0, "MiB": 1_048_576.0}
)
_DURATIONS: Final = frozenset("smhd")


@attrs.define(frozen=True, slots=True)
class Condition:
    """One parsed condition; ``text`` is how it was written."""

    text: str
    field: str
    order: str
    value: str
    number: float | None = None

    def holds(self, row: Row, now_s: float) -> bool:
        """Whether it holds for ``row`` at ``now_s`` (seconds since the Unix epoch).

        A field the row does not have is unequal to everything and fulfils no other comparison.
        """
        if self.number is not None:
            measured = _NUMBERS[self.field](row, now_s)
            return self.order == "!=" if measured is None else _ORDERS[self.order](measured, self.number)
        found = _TEXTS[self.field](row)
        if self.order == "~":
            return found is not None and self.value.casefold() in found.casefold()
        same = found is None if self.value == NONE else found == self.value
        return same is (self.order == "=")


def parse_condition(text: str) -> Condition:
    """Read one condition. Raises BadCondition, which names what is allowed."""
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise BadCondition(f"{text!r} is no condition: write FIELD=VALUE, FIELD~TEXT or FIELD>NUMBER")
    field, order, value = match.groups()
    if field in _TEXTS:
        if order not in {"=", "!=", "~"}:
            raise BadCondition(f"{field} is a text: compare it with =, != or ~")
        return Condition(text, field, order, value)
    if field not in _NUMBERS:
        raise BadCondition(f"there is no field {field!r}; the fields are {', '.join(FIELDS)}")
    if order == "~":
        raise BadCondition(f"{field} is a number: compare it with =, !=, >=, <=, > or <")
    return Condition(text, field, order, value, _quantity(field, value))


def parse_where(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Read conditions. Raises BadCondition."""
    return tuple(parse_condition(text) for text in texts)


def selects(where: Sequence[Condition], row: Row, now_s: float) -> bool:
    """Whether every condition holds."""
    return all(condition.holds(row, now_s) for condition in where)


def parse_duration(text: str) -> float:
    """Seconds of ``90s``, ``15m``, ``2h`` or ``7d``. Raises BadCondition."""
    try:
        return _quantity("age", text)
    except BadCondition as error:
        raise BadCondition(f"{text!r} is no duration: write 90s, 15m, 2h or 7d") from error


def _quantity(field: str, text: str) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    allowed = {"age": _DURATIONS, "size": {"B", "KiB", "MiB"}}.get(field, set[str]())
    if match is None or (match[2] is not None and match[2] not in allowed):
        example = {"age": "90s, 15m, 2h or 7d", "size": "4096 or 64KiB"}.get(field, "3")
        raise BadCondition(f"{text!r} is no value of {field}: write {example}")
    return float(match[1]) * _UNITS[match[2] or "B"]
