"""Verifying the whole ledger, hot window and archive, against its hash chains."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

import attrs

from craig_mq.audit.archive import Progress
from craig_mq.audit.chain import Link
from craig_mq.audit.columns import as_bytes, as_int, stored_row
from craig_mq.audit.database import Database
from craig_mq.audit.gaps import overlapping
from craig_mq.audit.ledger import Ledger, unwatched
from craig_mq.audit.row import StoredRow
from craig_mq.audit.schema import COLUMN_LIST
from craig_mq.audit.store import OnProgress
from craig_mq.audit.walk import ChainWalk, Finding, Gap

WINDOW_ROWS: Final = 500


@attrs.define(frozen=True, slots=True)
class VerifyReport:
    """What a walk along every chain found. ``rows`` were checked, ``purged`` are covered by gap records."""

    rows: int
    purged: int
    findings: tuple[Finding, ...]
    missing_anchors: tuple[str, ...]

    @property
    def intact(self) -> bool:
        """Whether nothing was edited, removed or reordered, as far as the anchors reach."""
        return not self.findings and not self.missing_anchors


async def verify(
    store: Ledger, *, anchors: Collection[bytes] = (), on_progress: OnProgress = unwatched
) -> VerifyReport:
    """Walk every writer's chain across hot window and archive, a window of rows at a time.

    ``anchors`` are links kept outside the database: each must still be on a chain, which is what
    finds a removed tail. Read-only; rows recorded meanwhile are left to the next run.
    """
    wanted = frozenset(anchors)
    heads = await store.run(heads_of)
    total = sum(head.seq for head in heads)
    walks: list[ChainWalk] = []
    unknown = "rows of a writer the ledger does not know"
    findings = [Finding(writer, 0, unknown) for writer in await store.run(strangers)]
    for head in heads:
        walk = ChainWalk.from_genesis(head.writer, wanted)
        walks.append(walk)
        while walk.link.seq < head.seq:
            until = min(walk.link.seq + WINDOW_ROWS, head.seq)
            rows, gaps = await store.run(
                partial(window, writer=head.writer, after=walk.link.seq, until=until)
            )
            walk.through(rows, gaps, until)
            on_progress(Progress(sum(one.rows + one.purged for one in walks), total))
        walk.end(head)
        findings += walk.findings
    passed = frozenset[bytes]().union(*(walk.passed for walk in walks))
    return VerifyReport(
        rows=sum(walk.rows for walk in walks),
        purged=sum(walk.purged for walk in walks),
        findings=tuple(findings),
        missing_anchors=tuple(sorted(anchor.hex() for anchor in wanted - passed)),
    )


def heads_of(database: Database) -> list[Link]:
    """The head of every chain the ledger knows."""
    rows = database.fetch("SELECT writer, seq, chain FROM writer ORDER BY writer")
    return [Link(str(writer), as_int(seq), as_bytes(chain)) for writer, seq, chain in rows]


def strangers(database: Database) -> list[str]:
    """Writers that have rows and no head: their chains can't have been recorded here."""
    return [
        str(writer)
        for table in ("occurrence", "archived_occurrence")
        for (writer,) in database.fetch(
            f"SELECT DISTINCT writer FROM {table} WHERE writer NOT IN (SELECT writer FROM writer)"  # noqa: S608 - fixed names
        )
    ]


def window(
    database: Database, *, writer: str, after: int, until: int
) -> tuple[dict[int, StoredRow], list[Gap]]:
    """The rows, hot and archived, and gaps of ``writer`` with ``after`` < seq <= ``until``: one snapshot."""
    bounds = (writer, after, until)
    with database.snapshot():
        hot = database.fetch(
            f"SELECT {COLUMN_LIST}, NULL FROM occurrence WHERE writer = ? AND seq > ? AND seq <= ?",  # noqa: S608 - fixed names
            bounds,
        )
        archived = database.fetch(
            f"SELECT {COLUMN_LIST}, archived_at FROM archived_occurrence"  # noqa: S608 - fixed names
            " WHERE writer = ? AND seq > ? AND seq <= ?",
            bounds,
        )
        gaps = overlapping(database, writer, after + 1, until)
    rows = map(stored_row, (*hot, *archived))
    return {row.seq: row for row in rows}, gaps
