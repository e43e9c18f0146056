"""The ledger's tables, written once; each store fills in its own column types.

``occurrence`` is the hot window, in which a token is unique; ``archived_occurrence`` is what was
pruned from it. ``writer`` holds the head of every hash chain, ``gap`` what retention purged from
one, ``alert`` when a threshold last fired; ``operator_action`` what operators did and why, and
``redriven_capture`` which captures they sent back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VERSION: Final = 3

COLUMNS: Final = (
    "id",
    "token",
    "envelope_id",
    "source_service",
    "event_type",
    "occurred_at",
    "recorded_at",
    "queue",
    "reason",
    "park_count",
    "content_sha256",
    "divergent",
    "canonical_id",
    "writer",
    "seq",
    "chain",
    "body",
)
COLUMN_LIST: Final = ", ".join(COLUMNS)

_ROW = """
  id {uuid} PRIMARY KEY,
  token {text},
  envelope_id {text} NOT NULL,
  source_service {text} NOT NULL,
  event_type {text} NOT NULL,
  occurred_at {moment} NOT NULL,
  recorded_at {moment} NOT NULL,
  queue {text} NOT NULL,
  reason {text},
  park_count {bigint} NOT NULL CHECK (park_count >= 0),
  content_sha256 {bytes} NOT NULL,
  divergent {bool} NOT NULL,
  canonical_id {uuid},
  writer {text} NOT NULL,
  seq {bigint} NOT NULL,
  chain {bytes} NOT NULL,
  body {bytes} NOT NULL"""

# The token index is the dedup; (writer, seq) is the order verify walks; (source_service, event_type,
# occurred_at) answers the threshold. Time of recording needs no index of its own: ids are UUIDv7.
_VERSION_1: Final = (
    "CREATE TABLE occurrence (" + _ROW + ", CHECK (NOT divergent OR token IS NULL))",
    "CREATE UNIQUE INDEX occurrence_token ON occurrence (token)",
    "CREATE UNIQUE INDEX occurrence_writer_seq ON occurrence (writer, seq)",
    "CREATE INDEX occurrence_kind ON occurrence (source_service, event_type, occurred_at)",
    "CREATE INDEX occurrence_divergent ON occurrence (id) WHERE divergent",
    "CREATE TABLE archived_occurrence (" + _ROW + ", archived_at {moment} NOT NULL)",
    "CREATE INDEX archived_occurrence_token ON archived_occurrence (token)",
    "CREATE UNIQUE INDEX archived_occurrence_writer_seq ON archived_occurrence (writer, seq)",
    "CREATE INDEX archived_occurrence_archived_at ON archived_occurrence (archived_at)",
    """CREATE TABLE writer (
      writer {text} PRIMARY KEY, seq {bigint} NOT NULL, chain {bytes} NOT NULL, imported {bool} NOT NULL)""",
    """CREATE TABLE gap (
      writer {text} NOT NULL, first_seq {bigint} NOT NULL, last_seq {bigint} NOT NULL,
      chain_before {bytes} NOT NULL, chain_after {bytes} NOT NULL, purged_at {moment} NOT NULL,
      PRIMARY KEY (writer, first_seq))""",
    """CREATE TABLE alert (
      source_service {text} NOT NULL, event_type {text} NOT NULL, fired_at {moment} NOT NULL,
      occurrences {bigint} NOT NULL, PRIMARY KEY (source_service, event_type))""",
)

# What operators did: two rows an act (begun, ended), and one a capture whose redrive was confirmed.
_VERSION_2: Final = (
    """CREATE TABLE operator_action (
      id {uuid} PRIMARY KEY, act {uuid} NOT NULL, phase {text} NOT NULL, at {moment} NOT NULL,
      who {text} NOT NULL, action {text} NOT NULL, queue {text} NOT NULL, reason {text} NOT NULL,
      plan_sha256 {text}, outcome {text} NOT NULL)""",
    """CREATE TABLE redriven_capture (
      capture_id {text} PRIMARY KEY, plan_sha256 {text} NOT NULL, who {text} NOT NULL,
      at {moment} NOT NULL)""",
)

# A page of one queue or one reason, newest first, however rare it is among a million rows.
_VERSION_3: Final = tuple(
    f"CREATE INDEX {table}_{column} ON {table} ({column}, id)"
    for table in ("occurrence", "archived_occurrence")
    for column in ("queue", "reason")
)

MIGRATIONS: Final[Mapping[int, tuple[str, ...]]] = {1: _VERSION_1, 2: _VERSION_2, 3: _VERSION_3}


def statements(version: int, types: Mapping[str, str]) -> list[str]:
    """The statements that lead from ``version - 1`` to ``version`` in a store with these column types."""
    return [statement.format_map(types) for statement in MIGRATIONS[version]]
