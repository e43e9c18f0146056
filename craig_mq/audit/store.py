"""The ledger's contract with the runtime and the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias
from uuid import UUID

from craig_mq.audit.archive import Progress
from craig_mq.audit.reading import AuditStats, RowFilter
from craig_mq.audit.row import AuditRow, RowOutcome, StoredRow

OnProgress: TypeAlias = Callable[[Progress], None]


class AuditStore(Protocol):
    """Where dead letters are recorded. ``open_store`` opens one; every method may be called by many tasks."""

    async def record(self, row: AuditRow) -> RowOutcome:
        """Commit ``row``, or find its committed phantom; returning is the evidence an ack needs.

        Raises ``DlqError`` with the disposition of the failure (ADR-059 §dispositions). Cancelled
        before its group was formed: nothing is written. Cancelled later: the row may be committed,
        and a redelivery of the same token is absorbed.
        """
        ...

    async def find(
        self,
        where: RowFilter = ...,
        *,
        limit: int = 100,
        before: UUID | None = None,
        archived: bool = False,
        bodies: bool = False,
    ) -> Sequence[StoredRow]:
        """Up to ``limit`` rows, newest first, without bodies unless asked; ``before`` pages on."""
        ...

    async def get(self, row_id: UUID) -> StoredRow | None:
        """The row with this id and its body, hot or archived."""
        ...

    async def stats(self) -> AuditStats:
        """The ledger in numbers, read in one snapshot."""
        ...

    async def prune(self, older_than: datetime, *, on_progress: OnProgress = ...) -> int:
        """Move every row recorded before ``older_than`` to the archive and return how many moved.

        One transaction a batch: cancelled or interrupted, it has lost nothing and can be run again.
        """
        ...

    async def purge(self, archived_before: datetime, *, on_progress: OnProgress = ...) -> int:
        """Delete rows archived before ``archived_before`` for good, leaving gap records in their chains."""
        ...
