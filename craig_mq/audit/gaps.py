"""Gap records: what is deliberately absent from a chain, so that verify accepts exactly that."""

from __future__ import annotations

from craig_mq.audit.columns import as_bytes, as_int, as_moment
from craig_mq.audit.database import Database
from craig_mq.audit.walk import Gap


def overlapping(database: Database, writer: str, first_seq: int, last_seq: int) -> list[Gap]:
    """The gaps of ``writer`` that share a place with ``first_seq`` .. ``last_seq``, in order."""
    rows = database.fetch(
        "SELECT writer, first_seq, last_seq, chain_before, chain_after, purged_at FROM gap"
        " WHERE writer = ? AND last_seq >= ? AND first_seq <= ? ORDER BY first_seq",
        (writer, first_seq, last_seq),
    )
    return [
        Gap(str(w), as_int(first), as_int(last), as_bytes(before), as_bytes(after), as_moment(at))
        for w, first, last, before, after, at in rows
    ]


def record_gap(database: Database, gap: Gap) -> None:
    """Write down that a run of a chain is not in this ledger."""
    database.execute(
        "INSERT INTO gap (writer, first_seq, last_seq, chain_before, chain_after, purged_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (gap.writer, gap.first_seq, gap.last_seq, gap.chain_before, gap.chain_after, gap.purged_at),
    )


def extend_gap(database: Database, *, by: Gap) -> bool:
    """Grow the gap that ends just before ``by`` to cover it too; False when there is none."""
    return bool(
        database.execute(
            "UPDATE gap SET last_seq = ?, chain_after = ?, purged_at = ? WHERE writer = ? AND last_seq = ?",
            (by.last_seq, by.chain_after, by.purged_at, by.writer, by.first_seq - 1),
        )
    )


def fill_gaps(database: Database, present: Gap) -> None:
    """Cut the run ``present``, whose rows are back, out of the gaps it overlaps."""
    for gap in overlapping(database, present.writer, present.first_seq, present.last_seq):
        database.execute("DELETE FROM gap WHERE writer = ? AND first_seq = ?", (gap.writer, gap.first_seq))
        for rest in remainders(gap, present):
            record_gap(database, rest)


def remainders(gap: Gap, present: Gap) -> list[Gap]:
    """What is left of ``gap`` before and after the run ``present``."""
    writer, at = gap.writer, gap.purged_at
    before = Gap(writer, gap.first_seq, present.first_seq - 1, gap.chain_before, present.chain_before, at)
    after = Gap(writer, present.last_seq + 1, gap.last_seq, present.chain_after, gap.chain_after, at)
    return [rest for rest in (before, after) if rest.first_seq <= rest.last_seq]
