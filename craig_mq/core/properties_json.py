"""AMQP properties as JSON without loss, for ``original_properties`` of a capture.

Properties and headers are an object of their set fields. Values JSON cannot hold become an object
with one ``$`` name: ``{"$bytes": base64}``, ``{"$decimal": text}``, ``{"$float": "nan"|"inf"|"-inf"}``,
``{"$table": [[name, value], …]}`` for a table whose names are not plain, ``{"$text": base64}`` for a
text with lone surrogates, and ``{"$unreadable": why}`` for what has no AMQP type or nests deeper than
64 levels. A delivery whose header could not be read adds ``"$raw_header": {"$bytes": …}``.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import TypeAlias, cast

import msgspec

from craig_mq.core.delivery import Properties

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_TABLE_DEPTH = 64

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode
_FIELDS = Properties.__struct_fields__
_values_of = attrgetter(*_FIELDS)
_SURROGATE = re.compile("[\ud800-\udfff]")


def properties_to_json(properties: Properties, undecodable: bytes | None = None) -> bytes:
    """Write properties, and the raw header bytes of an undecodable delivery, as one JSON object."""
    if undecodable is None and not properties.headers:
        try:
            return _encode(properties)
        except UnicodeEncodeError:
            pass  # a lone surrogate somewhere, which the long way marks
    values = zip(_FIELDS, _values_of(properties), strict=True)
    document: dict[str, Json] = {}
    for name, value in values:
        if type(value) is int or (type(value) is str and value.isascii()):
            document[name] = cast("Json", value)
        elif value is not None and value != {}:
            document[name] = _to_json(value, 0)
    if undecodable is not None:
        document["$raw_header"] = _to_json(undecodable, 0)
    return _encode(document)


def headers_from_json(document: bytes) -> Mapping[str, object]:
    """Read the headers back out of ``properties_to_json``'s object; anything else gives no headers."""
    if b'"headers"' not in document:
        return {}
    try:
        headers = _from_json(_decode(document).get("headers"))
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError, InvalidOperation):
        return {}
    return cast("dict[str, object]", headers) if isinstance(headers, dict) else {}


def _to_json(value: object, depth: int) -> Json:  # noqa: PLR0911 -- one return a wire type
    # By exact type first: this runs for every header of every capture.
    kind = type(value)
    if kind is str:
        return _text(cast("str", value))
    if kind is int or kind is bool or value is None:
        return cast("int | None", value)
    if depth > MAX_TABLE_DEPTH:
        return {"$unreadable": "nested too deep"}
    if kind is dict:
        return _table(cast("dict[object, object]", value), depth + 1)
    if isinstance(value, list | tuple):
        return [_to_json(item, depth + 1) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return _table(cast("Mapping[object, object]", value), depth + 1)
    return _scalar(value)


def _scalar(value: object) -> Json:
    match value:
        case bytes() | bytearray():
            return {"$bytes": _base64(bytes(value))}
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case Decimal():
            return {"$decimal": str(value)}
        case _:
            return {"$unreadable": type(value).__name__}


def _text(text: str) -> Json:
    return text if _is_plain(text) else {"$text": _base64(text.encode("utf-8", "surrogatepass"))}


def _table(table: Mapping[object, object], depth: int) -> Json:
    document: dict[str, Json] = {}
    for name, value in table.items():
        if type(name) is not str or name[:1] == "$" or not _is_plain(name):
            return {"$table": [[_to_json(key, depth), _to_json(item, depth)] for key, item in table.items()]}
        plain = type(value) is int or (type(value) is str and value.isascii())
        document[name] = cast("Json", value) if plain else _to_json(value, depth)
    return document


def _from_json(value: object) -> object:
    if isinstance(value, list):
        return [_from_json(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, object]", value)
    if len(table) == 1 and next(iter(table)).startswith("$"):
        return _marked(*next(iter(table.items())))
    return {name: _from_json(item) for name, item in table.items()}


def _marked(mark: str, value: object) -> object:
    match mark, value:
        case "$bytes", str():
            return base64.b64decode(value, validate=True)
        case "$text", str():
            return base64.b64decode(value, validate=True).decode("utf-8", "surrogatepass")
        case "$decimal", str():
            return Decimal(value)
        case "$float", str():
            return float(value)
        case "$table", list():
            pairs = cast("list[tuple[object, object]]", value)
            return {_from_json(name): _from_json(item) for name, item in pairs}
        case _:
            return {mark: value}


def _is_plain(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
