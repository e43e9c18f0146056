"""Reading an export back, and verifying it without its database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from craig_mq.audit.archive import Progress
from craig_mq.audit.chain import Link
from craig_mq.audit.errors import ExportError
from craig_mq.audit.export import FORMAT, MANIFEST, Manifest, Part
from craig_mq.audit.ledger import unwatched
from craig_mq.audit.row import StoredRow
from craig_mq.audit.store import OnProgress
from craig_mq.audit.verify import VerifyReport
from craig_mq.audit.walk import ChainWalk, Finding

_LINK: Final = re.compile("[0-9a-f]{64}")
_decode_row = msgspec.json.Decoder(StoredRow).decode
_decode_manifest = msgspec.json.Decoder(Manifest).decode


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the export in ``folder``. Raises ``ExportError``."""
    try:
        manifest = _decode_manifest((folder / MANIFEST).read_bytes())
    except FileNotFoundError as error:
        raise ExportError(f"{folder} holds no {MANIFEST}: not an export, or an unfinished one") from error
    except OSError as error:
        raise ExportError(f"{folder / MANIFEST} can't be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ExportError(f"{folder / MANIFEST} can't be read: {error}") from error
    if manifest.format != FORMAT:
        raise ExportError(f"{folder} has format {manifest.format!r}, this program reads {FORMAT!r}")
    if not all(_is_link(run.chain_before) and _is_link(run.chain_after) for run in manifest.runs):
        raise ExportError(f"{folder / MANIFEST} was edited: a link of its runs is not 64 hex digits")
    return manifest


def _is_link(text: str) -> bool:
    return _LINK.fullmatch(text) is not None


def read_part(folder: Path, part: Part) -> list[StoredRow]:
    """The rows of one part. Raises ``ExportError`` when it isn't what the manifest says."""
    if Path(part.name).name != part.name or "\0" in part.name:
        raise ExportError(f"the manifest names {part.name!r}, which is not a file of the export")
    try:
        data = (folder / part.name).read_bytes()
    except OSError as error:
        raise ExportError(f"{part.name} is missing or can't be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise ExportError(f"{part.name} was changed: its SHA-256 is not the manifest's")
    try:
        rows = [_decode_row(line) for line in data.splitlines()]
    except msgspec.MsgspecError as error:
        raise ExportError(f"{part.name} holds a line that is not a row: {error}") from error
    if len(rows) != part.rows:
        raise ExportError(f"{part.name} has {len(rows)} rows, the manifest says {part.rows}")
    return rows


def verify_export(
    folder: Path, *, anchors: Collection[bytes] = (), on_progress: OnProgress = unwatched
) -> VerifyReport:
    """Check every part against the manifest and every row against its chain; one part in memory at a time.

    Blocks. Raises ``ExportError`` when a part isn't what the manifest says; a broken chain is a finding.
    """
    manifest = read_manifest(folder)
    check = _ExportCheck(manifest, frozenset(anchors))
    for part in manifest.parts:
        for row in read_part(folder, part):
            check.row(row, part.name)
        on_progress(Progress(check.rows, manifest.rows))
    return check.report()


class _ExportCheck:
    """Follows the runs of a manifest through the rows of its parts."""

    def __init__(self, manifest: Manifest, anchors: frozenset[bytes]) -> None:
        self._manifest = manifest
        self._runs = iter(manifest.runs)
        self._anchors = anchors
        self._walk: ChainWalk | None = None
        self._last_seq = 0
        self._passed: set[bytes] = set()
        self._findings: list[Finding] = []
        self.rows = 0

    def row(self, row: StoredRow, part: str) -> None:
        walk = self._walk
        if walk is None or walk.link.seq == self._last_seq:
            walk = self._walk = self._next_run(row, part)
        if (row.writer, row.seq) != (walk.link.writer, walk.link.seq + 1):
            raise ExportError(f"{part}: row {row.id} is out of order")
        walk.row(row)
        self.rows += 1
        if row.seq == self._last_seq:
            self._end_run(walk)

    def _next_run(self, row: StoredRow, part: str) -> ChainWalk:
        run = next(self._runs, None)
        if run is None or (run.writer, run.first_seq) != (row.writer, row.seq):
            raise ExportError(f"{part}: row {row.id} begins no run of the manifest")
        self._last_seq = run.last_seq
        return ChainWalk(Link(run.writer, run.first_seq - 1, bytes.fromhex(run.chain_before)), self._anchors)

    def _end_run(self, walk: ChainWalk) -> None:
        self._findings += walk.findings
        self._passed |= walk.passed

    def report(self) -> VerifyReport:
        unfinished = self._walk is not None and self._walk.link.seq != self._last_seq
        if unfinished or next(self._runs, None) is not None or self.rows != self._manifest.rows:
            raise ExportError(f"the manifest says {self._manifest.rows} rows, the parts hold {self.rows}")
        missing = tuple(sorted(anchor.hex() for anchor in self._anchors - self._passed))
        return VerifyReport(self.rows, 0, tuple(self._findings), missing)
