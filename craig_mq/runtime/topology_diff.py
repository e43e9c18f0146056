"""Compares what stands at a broker with what we would declare, field by field.

AMQP has no way to read a queue's arguments: each refused declare names one field that differs, and
what stands in its place. So a part that exists is declared again with that one field as it stands,
until the broker agrees; nothing that exists is ever changed by it. Bindings cannot be seen at all.
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

import re
from typing import Final, TypeAlias

import attrs

from craig_mq.core.close import ChannelClose
from craig_mq.core.topology import ExchangeSpec, QueueSpec, Topology
from craig_mq.runtime.declare import NOT_FOUND, PRECONDITION_FAILED, refusal_of
from craig_mq.transport.broker import Connection

Part: TypeAlias = ExchangeSpec | QueueSpec

_INEQUIVALENT: Final = re.compile(
    r"inequivalent arg '(?P<field>[^']+)' for .*?: received (?P<ours>.*?) but current is (?P<theirs>.*)$"
)
_VALUE: Final = re.compile(r"(?:the value )?'(?P<value>.*?)'(?: of type '(?P<type>\w+)')?")
_NUMBERS: Final = frozenset(
    {"byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint", "timestamp"}
)
_MOST_FIELDS: Final = 32


@attrs.define(frozen=True, slots=True)
class Finding:
    """One part: ``missing``, ``refused`` with the broker's text, or ``same`` but for ``differences``.

    A difference is the field, our value and the broker's, both in the broker's words.
    """

    part: Part
    missing: bool = False
    refused: str | None = None
    differences: tuple[tuple[str, str, str], ...] = ()

    @property
    def same(self) -> bool:
        """Whether it stands exactly as we would declare it."""
        return not (self.missing or self.refused or self.differences)


async def compare(connection: Connection, topology: Topology) -> list[Finding]:
    """Look at every exchange and queue of a topology. Creates and changes nothing that exists.

    Raises TransportError where the connection fails. Cancelled: nothing was changed.
    """
    return [await _look(connection, part) for part in topology.parts]


async def _look(connection: Connection, part: Part) -> Finding:
    absent = await _refusal(connection, part, passive=True)
    if absent is not None:
        missing = absent.code == NOT_FOUND
        return Finding(part, missing=missing, refused=None if missing else f"{absent.code} {absent.text}")
    differences: list[tuple[str, str, str]] = []
    wanted: Part | None = part
    while wanted is not None and len(differences) < _MOST_FIELDS:
        refusal = await _refusal(connection, wanted, passive=False)
        if refusal is None:
            return Finding(part, differences=tuple(differences))
        named = _INEQUIVALENT.search(refusal.text)
        if refusal.code != PRECONDITION_FAILED or named is None:
            return Finding(part, refused=f"{refusal.code} {refusal.text}", differences=tuple(differences))
        field, ours, theirs = named.group("field", "ours", "theirs")
        differences.append((field, ours, theirs))
        wanted = _as_it_stands(wanted, field, theirs)
    return Finding(part, differences=tuple(differences))


async def _refusal(connection: Connection, part: Part, *, passive: bool) -> ChannelClose | None:
    channel = await connection.open_channel()
    refusal = await refusal_of(channel, part, passive=passive)
    if refusal is None:
        await channel.aclose()
    return refusal


def _as_it_stands(part: Part, field: str, theirs: str) -> Part | None:
    """Return the part with one field as the broker has it, None where that cannot be said in a declare."""
    found = _VALUE.match(theirs)
    if field.startswith("x-") or field == "alternate-exchange":
        arguments = dict(part.arguments)
        if found is None:
            arguments.pop(field, None)
        else:
            arguments[field] = _value(found.group("value"), found.group("type"))
        return attrs.evolve(part, arguments=arguments)
    if found is None:
        return None
    value = found.group("value")
    if field == "type" and isinstance(part, ExchangeSpec):
        return attrs.evolve(part, kind=value)
    if field == "durable":
        return attrs.evolve(part, durable=value == "true")
    if field == "auto_delete" and isinstance(part, QueueSpec):
        return attrs.evolve(part, auto_delete=value == "true")
    return None


def _value(text: str, kind: str | None) -> object:
    if kind == "bool":
        return text == "true"
    return int(text) if kind in _NUMBERS else text
