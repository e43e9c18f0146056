"""The counter and its deduplication store, in one database and changed in one transaction.

The key is the delivery's occurrence token, the identity that a redrive keeps or renews; the audit ledger
deduplicates by the same one. A result is valid strictly before its expiry, which counts from the commit,
and a hit never extends it (the inbox's bound). Statements run on the caller's thread: virtual time would
not wait for another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

import attrs

from craig_mq.review.events import Message

_TABLES = """
CREATE TABLE effect (at real NOT NULL, intent text NOT NULL, token text NOT NULL);
CREATE TABLE result (token text PRIMARY KEY, expires_at real NOT NULL);
"""


@attrs.frozen
class Effect:
    """One committed increment, at modeled second ``at``."""

    at: float
    intent: Message
    token: str


class EffectLedger:
    """``retention`` is in modeled seconds, None for no deduplication; ``now`` is modeled time."""

    def __init__(self, retention: int | None, now: Callable[[], float]) -> None:
        self._retention = retention
        self._now = now
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def apply(self, intent: Message, token: str) -> Literal["effect", "hit"]:
        """Commit the effect and its stored result, or return the stored result."""
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:
            if self._valid(token):
                return "hit"
            at = self._now()
            self._database.execute("INSERT INTO effect VALUES (?, ?, ?)", (at, intent, token))
            if self._retention is not None:
                self._database.execute(
                    "INSERT OR REPLACE INTO result VALUES (?, ?)", (token, at + self._retention)
                )
        return "effect"

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Every committed effect, in order."""
        rows = self._database.execute("SELECT at, intent, token FROM effect ORDER BY rowid")
        return tuple(Effect(*row) for row in rows)

    @property
    def recorded(self) -> dict[str, bool]:
        """What an operator's plan asks: each token with an effect, and whether a repeat is absorbed now."""
        return {effect.token: self._valid(effect.token) for effect in self.effects}

    def _valid(self, token: str) -> bool:
        found = self._database.execute("SELECT expires_at FROM result WHERE token = ?", (token,)).fetchone()
        return found is not None and self._now() < found[0]
