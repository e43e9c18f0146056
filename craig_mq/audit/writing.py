"""Writing one group of rows in one transaction: dedup, hash chain, isolation of a bad row.

The same steps serve both stores. Inside the transaction: take a writer (the head of a hash chain) and
insert every row as its next links, in one statement. Only when that did not take them all is it done
again with care: look up who holds the tokens, insert under savepoints, isolate a bad row. Nothing said
here is true before the commit, so verdicts leave only through the return value of ``write_group``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from uuid import UUID, uuid4

from craig_mq.audit.chain import Link, genesis
from craig_mq.audit.classification import classify
from craig_mq.audit.columns import as_bytes, as_uuid
from craig_mq.audit.database import Database, Verdict
from craig_mq.audit.dedup import Canonical, Insertion, judge
from craig_mq.audit.errors import CanonicalRowMissing, UnstorableRow
from craig_mq.audit.linking import link_all
from craig_mq.audit.row import Divergent, Entry, Recorded, RowOutcome, Tokenless
from craig_mq.core.disposition import Disposition

ROUNDS = 8  # each round loses to at least one concurrent commit of the same token; then the rest is retried
LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's lock_timeout ran out
LOOKUP_CHUNK = 500  # keeps IN lists far below every store's limit of parameters


def write_group(database: Database, entries: Sequence[Entry]) -> list[Verdict]:
    """Commit ``entries`` in one transaction; one verdict each, in their order.

    No two entries may carry the same token. Raises what the database raised when the group as a
    whole failed; then nothing of it is committed, unless the connection died around the commit.
    """
    insertions = list(map(Insertion, entries))
    try:
        _append(database, lambda head: _insert_links(database, head, insertions))
    except Exception as error:
        if not (isinstance(error, _TokensTaken) or _blames_a_row(error)):
            raise
        why = error
    else:
        return [insertion.outcome for insertion in insertions]
    group = _CarefulGroup(database)
    _append(database, lambda head: group.write(head, insertions, why))
    return [group.verdicts[entry.id] for entry in entries]


def _append(database: Database, insert: Callable[[Link], Link]) -> None:
    """Extend one chain in one transaction: ``insert`` adds rows after a head and returns the new head."""
    with database.transaction():
        taken = database.take_writer()
        head = taken or genesis(uuid4().hex)
        last = insert(head)
        if last.seq > head.seq:
            database.advance_writer(last, new=taken is None)


def _insert_links(database: Database, head: Link, insertions: Sequence[Insertion]) -> Link:
    """Insert them all after ``head`` or raise; what is inserted then is for the caller to undo."""
    try:
        last, rows = link_all(head, insertions)
    except UnicodeEncodeError as error:
        raise UnstorableRow(f"text that no encoding can hold: {error.reason}") from error
    if database.insert_rows(rows) < len(rows):
        ids = [one.entry.id for one in insertions]
        present = _looked_up(database, "SELECT id FROM occurrence WHERE id IN ", ids)
        raise _TokensTaken(set(ids).difference(as_uuid(row_id) for (row_id,) in present))
    return last


def resolve(database: Database, entries: Iterable[Entry]) -> dict[UUID, RowOutcome]:
    """The outcomes of those ``entries`` that are in the ledger under their own id, by looking them up."""
    outcomes: dict[UUID, RowOutcome] = {}
    for table in ("occurrence", "archived_occurrence"):
        query = f"SELECT id, token, canonical_id FROM {table} WHERE id IN "  # noqa: S608 - a fixed table name
        for row_id, token, canonical_id in _looked_up(database, query, [entry.id for entry in entries]):
            outcomes[as_uuid(row_id)] = _outcome(as_uuid(row_id), token, canonical_id)
    return outcomes


def _outcome(row_id: UUID, token: object, canonical_id: object) -> RowOutcome:
    if canonical_id is not None:
        return Divergent(row_id, as_uuid(canonical_id))
    return Tokenless(row_id) if token is None else Recorded(row_id)


def _looked_up(database: Database, query: str, keys: Sequence[object]) -> Iterator[tuple[object, ...]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, LOOKUP_CHUNK)):
        yield from database.fetch(f"{query}({', '.join('?' * len(chunk))})", chunk)


def _holders(database: Database, tokens: Sequence[str]) -> dict[str, Canonical]:
    query = "SELECT token, id, content_sha256 FROM occurrence WHERE token IN "
    return {
        str(token): Canonical(as_uuid(row_id), as_bytes(digest))
        for token, row_id, digest in _looked_up(database, query, tokens)
    }


def _blames_a_row(error: Exception) -> bool:
    """Whether one row of several may be at fault: a bad one, or one whose token another session locks."""
    return classify(error) is Disposition.PERMANENT or getattr(error, "sqlstate", None) == LOCK_NOT_AVAILABLE


class _TokensTaken(Exception):
    """The insert left rows out; ``ids`` are those that are not in the hot window under their own id."""

    def __init__(self, ids: set[UUID]) -> None:
        super().__init__(len(ids))
        self.ids = ids


class _CarefulGroup:
    """A group that can't be inserted as it is, inside its transaction, with the verdicts so far."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.verdicts: dict[UUID, Verdict] = {}

    def write(self, head: Link, insertions: list[Insertion], why: Exception) -> Link:
        """Settle every row that could not be inserted at once, which is ``why``; the chain's new head."""
        if isinstance(why, _TokensTaken):
            return self._insert(head, self._rejudged(insertions, why.ids))
        return self._isolate(head, insertions, why)

    def _insert(self, head: Link, insertions: list[Insertion]) -> Link:
        for _ in range(ROUNDS):
            if not insertions:
                return head
            try:
                with self._database.savepoint():
                    last = _insert_links(self._database, head, insertions)
            except _TokensTaken as lost:
                insertions = self._rejudged(insertions, lost.ids)
            except Exception as error:
                if not _blames_a_row(error):
                    raise
                return self._isolate(head, insertions, error)
            else:
                self._settle(insertions, lambda insertion: insertion.outcome)
                return last
        self._settle(insertions, lambda _: CanonicalRowMissing("the token kept changing hands"))
        return head

    def _isolate(self, head: Link, insertions: list[Insertion], error: Exception) -> Link:
        """Give a lone row its own error; write a group's rows one by one, so that only the bad one fails."""
        if len(insertions) == 1:
            self._settle(insertions, lambda _: error)
            return head
        for insertion in insertions:
            head = self._insert(head, [insertion])
        return head

    def _rejudged(self, insertions: list[Insertion], left_out: set[UUID]) -> list[Insertion]:
        """What is still to insert once the rows that hold these tokens now have been looked at."""
        own = resolve(self._database, [one.entry for one in insertions])
        tokens = [one.entry.row.token for one in insertions if one.entry.row.token is not None]
        holders = _holders(self._database, tokens)
        remaining: list[Insertion] = []
        for insertion in insertions:
            entry = insertion.entry
            holder = holders.get(entry.row.token) if entry.row.token is not None else None
            judged = own.get(entry.id) or judge(entry, holder)
            if isinstance(judged, Insertion):
                if holder is None and entry.id in left_out:
                    # ADR-059 §dispositions: a real race with the pruner; a retry records the occurrence.
                    self.verdicts[entry.id] = CanonicalRowMissing(f"no row holds {entry.row.token} any more")
                else:
                    remaining.append(judged)
            else:
                self.verdicts[entry.id] = judged
        return remaining

    def _settle(self, insertions: list[Insertion], verdict: Callable[[Insertion], Verdict]) -> None:
        for insertion in insertions:
            self.verdicts[insertion.entry.id] = verdict(insertion)
