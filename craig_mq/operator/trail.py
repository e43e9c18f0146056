"""The audit trail of an operator's act: written before it begins and after it ends, or there is no act."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

import attrs
import trio

from craig_mq.audit.driver_errors import driver_words
from craig_mq.audit.ledger import Ledger
from craig_mq.audit.opening import open_store
from craig_mq.audit.operators import (
    OperatorAction,
    mark_redriven,
    redriven_captures,
    token_rows,
    write_action,
)
from craig_mq.operator.connecting import sole
from craig_mq.operator.errors import LedgerFailed
from craig_mq.runtime.sources import system_uuid7

END_TIMEOUT_S: Final = 10.0


@attrs.define(frozen=True, slots=True)
class Act:
    """Who does what to which queue, why, and by which plan."""

    action: str
    queue: str
    who: str
    reason: str
    plan_sha256: str | None = None


@attrs.define(slots=True, eq=False)
class Trail:
    """An act under way; the caller sets ``outcome``. Without a ledger nothing is written or known."""

    _ledger: Ledger | None
    _act: Act
    outcome: dict[str, Any] = attrs.field(factory=dict[str, Any])

    async def redriven_elsewhere(self, keys: Iterable[str]) -> frozenset[str]:
        """Which of these captures another plan has redriven."""
        if self._ledger is None:
            await trio.lowlevel.checkpoint()
            return frozenset()
        found = await self._ledger.run(partial(redriven_captures, capture_ids=tuple(keys)))
        return frozenset(key for key, plan_sha256 in found.items() if plan_sha256 != self._act.plan_sha256)

    async def confirmed(self, key: str) -> None:
        """Commit that this capture's redrive is confirmed.

        Raises the ledger's error, and then nothing may be acked.
        """
        if self._ledger is None:
            return  # noqa: ASYNC910 - between a confirm on disk and its ack there is no task switch
        now = datetime.now(UTC)
        plan = self._act.plan_sha256 or ""
        with ledger_errors():
            await self._ledger.run(
                partial(mark_redriven, capture_id=key, plan_sha256=plan, who=self._act.who, at=now)
            )


@asynccontextmanager
async def open_trail(url: str | None, act: Act) -> AsyncGenerator[Trail, None]:
    """Write that ``act`` begins, run the block, write its outcome; ``url`` None writes nothing.

    Raises the ledger's errors before the block where the beginning can't be written. Cancelled, or left by
    an exception: the end is still written, within 10 seconds, as *interrupted*.
    """
    if url is None:
        yield Trail(None, act)
        return
    try:
        async with _opened(url) as ledger:
            act_id = UUID(system_uuid7())
            with ledger_errors():
                await ledger.run(partial(write_action, action=_action(act, act_id, "begun", {})))
            trail = Trail(ledger, act)
            try:
                yield trail
            finally:
                outcome = trail.outcome or {"interrupted": True}
                with trio.CancelScope(shield=True, deadline=trio.current_time() + END_TIMEOUT_S):
                    await ledger.run(partial(write_action, action=_action(act, act_id, "ended", outcome)))
    except BaseExceptionGroup as group:
        raise sole(group) from None


@asynccontextmanager
async def _opened(url: str) -> AsyncGenerator[Ledger, None]:
    async with AsyncExitStack() as stack:
        with ledger_errors(url):
            ledger = await stack.enter_async_context(open_store(url))
        yield ledger


@contextmanager
def ledger_errors(url: str = "") -> Generator[None]:
    """Raise LedgerFailed for what the driver of the ledger (at ``url``, if known) raises."""
    try:
        yield
    except Exception as error:
        words = driver_words(error, url)
        if words is None:
            raise
        raise LedgerFailed(f"the ledger can't be used, so nothing more is done: {words}") from error


async def known_rows(
    url: str, tokens: Iterable[str], keys: Iterable[str]
) -> tuple[dict[str, bool], frozenset[str]]:
    """What the ledger knows of these tokens (row hot or archived), and which captures were redriven."""
    async with _opened(url) as ledger:
        rows = await ledger.run(partial(token_rows, tokens=tuple(tokens)))
        redriven = await ledger.run(partial(redriven_captures, capture_ids=tuple(keys)))
    return rows, frozenset(redriven)


def _action(
    act: Act, act_id: UUID, phase: Literal["begun", "ended"], outcome: dict[str, Any]
) -> OperatorAction:
    return OperatorAction(
        id=UUID(system_uuid7()),
        act=act_id,
        phase=phase,
        at=datetime.now(UTC),
        outcome=json.dumps(outcome),
        who=act.who,
        action=act.action,
        queue=act.queue,
        reason=act.reason,
        plan_sha256=act.plan_sha256,
    )
