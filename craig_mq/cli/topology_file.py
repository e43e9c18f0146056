"""Topology as data: a TOML file, or the defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs

from craig_mq.core.config import (
    DeadLetterBy,
    QueueType,
    SubscriptionConfig,
    SubscriptionOptions,
    validate_exchange,
    validate_names,
    validate_queue,
)
from craig_mq.core.errors import DlqConfigError
from craig_mq.core.topology import EVENTS_EXCHANGE, Topology, event_topology, topology_for
from craig_mq.service.settings import SettingsError

T = TypeVar("T", bound="DeadLetterTable | QueueTable")
DEFAULT_QUEUE = "craig.dlq"


@attrs.define(frozen=True, slots=True)
class DeadLetterTable:
    """One ``[[dead_letter_queue]]``: the queue, its siblings and its bindings to craig.dlx."""

    queue: str
    binding_keys: list[str] = attrs.field(factory=lambda: ["dlq.#"])
    queue_type: QueueType = "classic"

    def topology(self) -> Topology:
        """Return what is declared. Raises DlqConfigError."""
        validate_names(self.queue, self.binding_keys)
        SubscriptionOptions(queue_type=self.queue_type)
        return topology_for(self.queue, self.binding_keys, self.queue_type)


@attrs.define(frozen=True, slots=True)
class QueueTable:
    """One ``[[queue]]``: an ordinary queue and its bindings to the exchange of its events."""

    queue: str
    binding_keys: list[str] = attrs.field(factory=list[str])
    exchange: str = EVENTS_EXCHANGE
    queue_type: QueueType = "classic"
    dead_letter_by: DeadLetterBy = "client"

    def topology(self) -> Topology:
        """Return what is declared. Raises DlqConfigError."""
        validate_queue(self.queue, self.binding_keys)
        validate_exchange(self.exchange)
        SubscriptionOptions(queue_type=self.queue_type)
        SubscriptionConfig(dead_letter_by=self.dead_letter_by)
        return event_topology(
            self.queue, self.binding_keys, self.exchange, self.queue_type, self.dead_letter_by
        )


def load_topologies(path: Path | None, queue: str = DEFAULT_QUEUE) -> list[Topology]:
    """Read ``path``, or return the topology of one dead-letter ``queue`` and its siblings.

    Raises SettingsError, naming the file, the table and the key.
    """
    if path is None:
        try:
            return [DeadLetterTable(queue).topology()]
        except DlqConfigError as error:
            raise SettingsError(f"--queue: {error}") from error
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    unknown = document.keys() - {"dead_letter_queue", "queue"}
    if unknown or not document:
        named = f"unknown table {min(unknown)!r}" if unknown else "nothing is in it"
        raise SettingsError(f"{path}: {named}; write [[queue]] and [[dead_letter_queue]] tables")
    return [
        *_tables(path, document, "queue", QueueTable),
        *_tables(path, document, "dead_letter_queue", DeadLetterTable),
    ]


def _tables(path: Path, document: Mapping[str, Any], name: str, kind: type[T]) -> list[Topology]:
    known = {field.name for field in attrs.fields(kind)}
    found: list[Topology] = []
    tables: object = document.get(name, [])
    if not isinstance(tables, list):
        raise SettingsError(f"{path}: {name} must be a list of tables, written [[{name}]]")
    for position, table in enumerate(cast("list[object]", tables), 1):
        where = f"{path}: [[{name}]] number {position}"
        if not isinstance(table, dict):
            raise SettingsError(f"{where} must be a table, written [[{name}]]")
        values = cast("dict[str, Any]", table)
        if values.keys() - known:
            raise SettingsError(
                f"{where} has no {min(values.keys() - known)!r}; it takes {', '.join(sorted(known))}"
            )
        if "queue" not in values:
            raise SettingsError(f"{where} needs a queue")
        if not isinstance(values.get("binding_keys", []), list):
            raise SettingsError(f"{where}: binding_keys must be a list of texts")
        try:
            found.append(kind(**values).topology())
        except DlqConfigError as error:
            raise SettingsError(f"{where}: {error}") from error
    return found
