"""Walking a hash chain, row by row, and saying what is wrong with it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from craig_mq.audit.chain import Link, expected_chain, genesis
from craig_mq.audit.row import StoredRow

MAX_FINDINGS: Final = 100  # a chain that is broken everywhere is told as well by its first hundred places


@attrs.define(frozen=True, slots=True)
class Gap:
    """A run of rows that retention purged, with the links around it."""

    writer: str
    first_seq: int
    last_seq: int
    chain_before: bytes
    chain_after: bytes
    purged_at: datetime


@attrs.define(frozen=True, slots=True)
class Finding:
    """One place where the ledger is not what was recorded. ``seq`` is the place in ``writer``'s chain."""

    writer: str
    seq: int
    text: str


class ChainWalk:
    """Follows one writer's chain from ``start`` and collects findings and the anchors it passes.

    After a broken place it goes on from what is stored there, so each change is found once.
    """

    def __init__(self, start: Link, anchors: frozenset[bytes]) -> None:
        self.link = start
        self.rows = 0
        self.purged = 0
        self.findings: list[Finding] = []
        self._proven = True  # whether ``link`` is the link of the place just before the next one
        self._anchors = anchors
        self.passed = {start.chain} & anchors

    @classmethod
    def from_genesis(cls, writer: str, anchors: frozenset[bytes]) -> ChainWalk:
        """Begin before the writer's first row."""
        return cls(genesis(writer), anchors)

    def through(self, rows: Mapping[int, StoredRow], gaps: Sequence[Gap], until: int) -> None:
        """Follow the chain to ``until``, or beyond it to the end of a gap; ``rows`` are keyed by seq."""
        while self.link.seq < until:
            seq = self.link.seq + 1
            row = rows.get(seq)
            gap = next((one for one in gaps if one.first_seq <= seq <= one.last_seq), None)
            if row is not None:
                self.row(row)
            elif gap is not None:
                self._gap(gap, seq)
            else:
                self._missing(rows, gaps, seq, until)

    def row(self, row: StoredRow) -> None:
        """Take ``row`` as the next link."""
        body = b"" if row.body is None else row.body
        if hashlib.sha256(body).digest() != row.content_sha256:
            self._find(row.seq, f"the body of row {row.id} is not what was recorded")
        if self._proven and expected_chain(self.link.chain, row) != row.chain:
            self._find(row.seq, f"row {row.id} was edited or moved: its link doesn't follow from the last")
        self._step(row.seq, row.chain)
        self.rows += 1

    def end(self, head: Link) -> None:
        """Compare with the head the ledger keeps for this writer."""
        if self._proven and (self.link.seq, self.link.chain) != (head.seq, head.chain):
            self._find(head.seq, "the chain does not end at the head the ledger keeps for its writer")

    def _gap(self, gap: Gap, seq: int) -> None:
        # A gap that began before this place grew while the walk was under way: its start was walked as rows.
        if self._proven and seq == gap.first_seq and gap.chain_before != self.link.chain:
            self._find(seq, "the record of a purge does not follow from the row before it")
        self.purged += gap.last_seq - seq + 1
        self._step(gap.last_seq, gap.chain_after)

    def _missing(self, rows: Mapping[int, StoredRow], gaps: Sequence[Gap], seq: int, until: int) -> None:
        known = [one for one in (*rows, *(gap.first_seq for gap in gaps)) if one > seq]
        last = min(known, default=until + 1) - 1
        self._find(seq, f"row {seq} is missing" if last == seq else f"rows {seq} to {last} are missing")
        self._step(last, self.link.chain)
        self._proven = False  # nothing proves the next link; its own finding would only repeat this one

    def _step(self, seq: int, chain: bytes) -> None:
        self.link = Link(self.link.writer, seq, chain)
        self._proven = True
        if chain in self._anchors:
            self.passed.add(chain)

    def _find(self, seq: int, text: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(self.link.writer, seq, text))
