"""A TOML file as the settings of ``craig-mq run``; every refusal names the file, the table and the key.

Tables: ``[retry]`` holds the fields of DlqRetryConfig, ``[options]`` those of SubscriptionOptions,
``[service]`` holds ``queue``, ``binding_keys``, ``audit``, ``metrics``. Durations are seconds. A URL
never stands in the file: it would bring its password along.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.config_fields import duration, optional_duration
from craig_mq.core.errors import DlqConfigError

T = TypeVar("T")


class SettingsError(Exception):
    """The settings cannot be used; the text says which key of which table, and what is allowed."""


def _text(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, str):
        # The type and not the value: an audit URL can hold a password.
        raise DlqConfigError(field.name, type(value), "a text")


def _texts(_: object, field: attrs.Attribute[Any], value: object) -> None:
    # A lone text is a sequence of texts, too: letter by letter, and its "#" would bind everything.
    given = value
    if value is None:
        return
    if not isinstance(value, list | tuple) or not all(
        isinstance(one, str) for one in cast("list[object]", value)
    ):
        raise DlqConfigError(field.name, given, "a list of texts")


@attrs.define(frozen=True, slots=True)
class ServiceTable:
    """What the command line can say too; the command line wins. Raises DlqConfigError for other types."""

    queue: str | None = attrs.field(default=None, validator=_text)
    binding_keys: Sequence[str] | None = attrs.field(default=None, validator=_texts)
    audit: str | None = attrs.field(default=None, validator=_text)
    metrics: str | None = attrs.field(default=None, validator=_text)


@attrs.define(frozen=True, slots=True)
class Settings:
    """Everything one file said."""

    retry: DlqRetryConfig = attrs.field(factory=DlqRetryConfig)
    options: SubscriptionOptions = attrs.field(factory=SubscriptionOptions)
    service: ServiceTable = attrs.field(factory=ServiceTable)


def load_settings(path: Path) -> Settings:
    """Read ``path``. Raises SettingsError for a file that is missing, no TOML, or says what is unknown."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    unknown = document.keys() - {"retry", "options", "service"}
    if unknown:
        raise SettingsError(
            f"{path}: unknown table [{min(unknown)}]; allowed are [retry], [options], [service]"
        )
    return Settings(
        retry=_table(path, document, "retry", DlqRetryConfig),
        options=_table(path, document, "options", SubscriptionOptions),
        service=_table(path, document, "service", ServiceTable),
    )


def _table(path: Path, document: Mapping[str, Any], name: str, kind: type[T]) -> T:
    found: object = document.get(name, {})
    if not isinstance(found, dict):
        raise SettingsError(f"{path}: {name} must be a table, written [{name}]")
    values = cast("dict[str, Any]", found)
    known = [field.name for field in attrs.fields(kind)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise SettingsError(f"{path}: [{name}] has no {key!r}; it takes {', '.join(known)}")
    try:
        return kind(**values)
    except DlqConfigError as error:
        raise SettingsError(f"{path}: [{name}] {error}{_as_seconds(kind, error)}") from error


def _as_seconds(kind: type[Any], error: DlqConfigError) -> str:
    """How to write a duration, where a text stands in its place."""
    converter: object = getattr(attrs.fields_dict(kind).get(error.field), "converter", None)
    timed = converter in (duration, optional_duration)
    return ", written as a number of seconds" if timed and isinstance(error.value, str) else ""
