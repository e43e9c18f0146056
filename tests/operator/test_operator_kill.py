"""A redrive killed at any step resumes with the exact remainder."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trio

from craig_mq.audit import AuditStore, open_store
from craig_mq.audit.handler import row_of
from craig_mq.core.dead_letter import DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.operator.errors import BadJournal
from craig_mq.operator.journal import Journal, Step, open_journal
from craig_mq.operator.redrive import redrive_plan
from craig_mq.testing import MemoryBroker
from supervisors.shutdown import Shutdown

REDRIVE = "craig_mq operator: redrive to craig.dlx"


class Kill(trio.abc.Instrument):
    """Kills one run before its n-th step: its connections drop, its journal takes no more lines."""

    def __init__(self, broker: MemoryBroker, at_step: int) -> None:
        self.broker, self.left, self.happened = broker, at_step, False
        self.scope = trio.CancelScope()
        self.watching = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self.watching or self.happened:
            return
        self.left -= 1
        if self.left == 0:
            self.happened = True
            for name in set(self.broker.connections):
                self.broker.close_connection(name, "killed")
            self.scope.cancel(reason="killed")


class MortalJournal(Journal):
    """A journal whose process may be dead."""

    kill: Kill

    def write(self, step: Step, key: str | None = None, **detail: object) -> None:
        if self.kill.happened:
            raise ProcessLookupError("killed")
        super().write(step, key, **detail)


async def _killed_run(desk, plan, kill: Kill, path: Path) -> None:
    trio.lowlevel.add_instrument(kill)
    try:
        with open_journal(path, plan_sha256="0" * 64, now=lambda: 0.0) as journal:
            journal.__class__ = MortalJournal
            journal.kill = kill
            kill.watching = True
            with kill.scope:
                try:
                    await redrive_plan(desk.broker, plan, journal, desk.fast, stop=Shutdown())
                except* ProcessLookupError:
                    await trio.lowlevel.checkpoint()
    finally:
        kill.watching = False
        trio.lowlevel.remove_instrument(kill)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[AuditStore]:
    """An audit ledger of the test's own."""
    async with open_store(f"sqlite:///{tmp_path}/audit.db") as store:
        yield store


async def _record(store: AuditStore, queue: str, bodies: Sequence[bytes]) -> Counter[str]:
    """Record redriven messages as the ledger's handler does; what their rows came to."""
    outcomes: Counter[str] = Counter()
    for body in bodies:
        subject = build_dead_letter_delivery(Delivery(1, "craig.dlx", "dlq.svc.a", False, body), queue=queue)
        assert isinstance(subject, DeadLetterDelivery)
        outcomes[type(await store.record(row_of(subject.dead_letter(1)))).__name__] += 1
    return outcomes


async def test_a_kill_at_every_await_loses_nothing(autojump_clock, broker, desk, ward, fill, ledger) -> None:
    """Killed before any step of a run, the next one leaves each planned message redriven at least once.

    Twice only where the kill fell between publish and journaled confirm, with the same capture_id and
    token, which the ledger absorbs; everything else stays in quarantine, in order.
    """
    at_step, doubled = 0, 0
    while True:
        at_step += 1
        broker.purge(ward.quarantine)
        broker.purge(ward.queue)
        bodies = fill(*(ward.capture(error="ab"[n % 2]) for n in range(4)))
        plan = await desk.plan("error=a")
        path = desk.folder / f"journal {at_step}"
        kill = Kill(broker, at_step)
        await _killed_run(desk, plan, kill, path)
        account = await desk.redrive(plan, journal=path.name)
        found = account.document()
        assert (found["redriven"], found["remaining"], found["skipped"]) == (2, 0, {}), at_step
        copies = Counter(desk.redriven)
        assert set(copies) == {entry.key for entry in plan.selected}, at_step
        assert copies.total() - 2 <= found["uncertain"] <= 1, at_step
        tokens = {ward.read(body).occurrence_token for body in broker.queue(ward.queue).bodies}
        assert tokens == {entry.token for entry in plan.selected}, at_step
        assert await _record(ledger, ward.queue, broker.queue(ward.queue).bodies) == Counter(
            Recorded=2, Phantom=copies.total() - 2
        )
        assert desk.quarantined == bodies[1::2], at_step
        doubled += copies.total() - 2
        if not kill.happened:
            break
    assert at_step > 30
    assert doubled >= 1


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    """A journal that a kill left in the middle of a line opens without that line, and goes on."""
    path = tmp_path / "journal"
    with open_journal(path, plan_sha256="a", now=lambda: 0.0) as journal:
        journal.write(Step.RUN)
        journal.write(Step.INTENT, "one")
        journal.write(Step.CONFIRMED, "one")
    whole = path.read_bytes()
    for cut in range(len(whole.splitlines()[-1]) + 1):
        path.write_bytes(whole[: len(whole) - cut - 1])
        with open_journal(path, plan_sha256="a", now=lambda: 0.0) as journal:
            assert journal.confirmed == set()
            journal.write(Step.RUN)
            assert journal.uncertain == {"one"}


def _opened(path: Path, plan_sha256: str) -> None:
    with open_journal(path, plan_sha256=plan_sha256, now=lambda: 0.0):
        pass


def test_a_journal_of_another_plan_or_process_is_refused(tmp_path: Path) -> None:
    """One journal belongs to one plan and to one process at a time, and an edited one is refused."""
    path = tmp_path / "journal"
    held = open_journal(path, plan_sha256="a", now=lambda: 0.0)
    with held, pytest.raises(BadJournal, match="another process"):
        _opened(path, "a")
    with pytest.raises(BadJournal, match="another plan"):
        _opened(path, "b")
    path.write_bytes(path.read_bytes() + b"edited\n")
    with pytest.raises(BadJournal, match="was edited"):
        _opened(path, "a")
    assert path.stat().st_mode & 0o077 == 0
