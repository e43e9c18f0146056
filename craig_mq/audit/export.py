"""Exports: JSON Lines in parts, with a manifest of SHA-256 digests that is written last.

A part holds one row a line, in the order of the hash chains. The manifest names each part's digest
and each run of a chain in the export, so that an export verifies without its database.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs
import msgspec
import trio

from craig_mq.audit.archive import Progress, chain_before
from craig_mq.audit.database import Database
from craig_mq.audit.errors import ExportError
from craig_mq.audit.ledger import Ledger, unwatched
from craig_mq.audit.row import StoredRow
from craig_mq.audit.store import OnProgress
from craig_mq.audit.verify import WINDOW_ROWS, heads_of, window

FORMAT: Final = "craig_mq.audit/1"
MANIFEST: Final = "manifest.json"
PART_ROWS: Final = 10_000

Scope: TypeAlias = Literal["all", "hot", "archive"]


class Part(msgspec.Struct, frozen=True):
    """One file of the export."""

    name: str
    rows: int
    sha256: str


class Run(msgspec.Struct, frozen=True):
    """Consecutive rows of one chain, with the link before them and the link of the last."""

    writer: str
    first_seq: int
    last_seq: int
    chain_before: str
    chain_after: str


class Manifest(msgspec.Struct, frozen=True):
    """What an export consists of."""

    format: str
    rows: int
    parts: list[Part]
    runs: list[Run]


@attrs.define(frozen=True, slots=True)
class ExportReport:
    """What was written; keep ``manifest_sha256`` elsewhere to prove the export unchanged later."""

    rows: int
    parts: int
    manifest_sha256: str


async def export(
    store: Ledger, folder: Path, *, scope: Scope = "all", on_progress: OnProgress = unwatched
) -> ExportReport:
    """Write the rows of ``scope`` into the empty or new ``folder``.

    Raises ``ExportError`` when the folder holds anything. Interrupted, it leaves parts without a
    manifest, which no import accepts.
    """
    await trio.to_thread.run_sync(_require_empty, folder)
    heads = await store.run(heads_of)
    total = sum(head.seq for head in heads)
    writer = _PartWriter(folder)
    passed = 0
    for head in heads:
        after = 0
        while after < head.seq:
            until = min(after + WINDOW_ROWS, head.seq)
            chosen = await store.run(
                partial(_choose, writer=head.writer, after=after, until=until, scope=scope)
            )
            await trio.to_thread.run_sync(writer.add, chosen)
            after = max(until, chosen.skip_to)
            on_progress(Progress(passed + after, total))
        passed += head.seq
    return await trio.to_thread.run_sync(writer.finish)


@attrs.define(frozen=True, slots=True)
class _Chosen:
    """Rows of one window in scope, with the link before each run that begins there; gaps can be skipped."""

    rows: list[StoredRow]
    links_before: dict[int, bytes]
    skip_to: int


def _choose(database: Database, *, writer: str, after: int, until: int, scope: Scope) -> _Chosen:
    rows, gaps = window(database, writer=writer, after=after, until=until)
    chosen = [rows[seq] for seq in sorted(rows) if _in_scope(rows[seq], scope)]
    seqs = {row.seq for row in chosen}
    begins = [row.seq for row in chosen if row.seq - 1 not in seqs]
    return _Chosen(
        chosen,
        {seq: chain_before(database, writer, seq) for seq in begins},
        max((gap.last_seq for gap in gaps), default=0),
    )


def _in_scope(row: StoredRow, scope: Scope) -> bool:
    return scope == "all" or (scope == "archive") == (row.archived_at is not None)


def _require_empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ExportError(f"{folder} is not empty: an export needs a folder of its own")


class _PartWriter:
    """Writes rows into parts, each on the disk before the manifest that names it. Run in threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: list[Part] = []
        self._runs: list[Run] = []
        self._waiting: list[StoredRow] = []

    def add(self, chosen: _Chosen) -> None:
        for row in chosen.rows:
            last = self._runs[-1] if self._runs else None
            if last is not None and (last.writer, last.last_seq) == (row.writer, row.seq - 1):
                self._runs[-1] = msgspec.structs.replace(last, last_seq=row.seq, chain_after=row.chain.hex())
            else:
                before = chosen.links_before[row.seq]
                self._runs.append(Run(row.writer, row.seq, row.seq, before.hex(), row.chain.hex()))
        self._waiting += chosen.rows
        while len(self._waiting) >= PART_ROWS:
            self._write_part(self._waiting[:PART_ROWS])
            del self._waiting[:PART_ROWS]

    def finish(self) -> ExportReport:
        if self._waiting:
            self._write_part(self._waiting)
        rows = sum(part.rows for part in self._parts)
        manifest = msgspec.json.format(msgspec.json.encode(Manifest(FORMAT, rows, self._parts, self._runs)))
        unfinished = self._folder / f"{MANIFEST}.part"
        _write_durably(unfinished, manifest)
        unfinished.rename(self._folder / MANIFEST)
        _sync_folder(self._folder)
        return ExportReport(rows, len(self._parts), hashlib.sha256(manifest).hexdigest())

    def _write_part(self, rows: Sequence[StoredRow]) -> None:
        name = f"part-{len(self._parts) + 1:05}.jsonl"
        data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        _write_durably(self._folder / name, data)
        self._parts.append(Part(name, len(rows), hashlib.sha256(data).hexdigest()))


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
