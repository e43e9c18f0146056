"""Every cell of the two-strike ladder, on the embedded broker and on RabbitMQ (decisions, 19)."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import pytest
import trio

from craig_mq.observe.events import SessionDown, SettlementFailure, TopologyRepaired

By = Literal["client", "broker"]
Cell = Literal["ok", "once", "twice", "malformed"]
Trouble = Literal["unroutable", "missing"]
Settlement = Literal["ack", "requeue", "reject"]

BY = pytest.mark.parametrize("by", ["client", "broker"])
CELLS = pytest.mark.parametrize("cell", ["ok", "once", "twice", "malformed"])
TROUBLE = pytest.mark.parametrize("trouble", ["unroutable", "missing"])
DOOMED = pytest.mark.parametrize("cell", ["twice", "malformed"])


@attrs.define(frozen=True)
class Expected:
    """What a cell comes to: outcomes, handler calls, and what is left in ``orders`` and in ``dead``.

    ``requeued`` is None where the connection may be reset before a requeue is known to be written.
    """

    acked: int
    requeued: int | None
    dead_lettered: int
    calls: int
    left: tuple[int, int]

    def check_on(self, station: Any) -> None:
        """Assert all of it."""
        acked, requeued, dead_lettered = station.outcomes
        assert (acked, dead_lettered) == (self.acked, self.dead_lettered)
        assert self.requeued in {None, requeued}
        assert len(station.calls) == self.calls
        assert station.left == self.left


CLEAN: dict[Cell, Expected] = {
    "ok": Expected(1, 0, 0, 1, (0, 0)),
    "once": Expected(1, 1, 0, 2, (0, 0)),
    "twice": Expected(0, 1, 1, 2, (0, 1)),
    "malformed": Expected(0, 0, 1, 0, (0, 1)),
}


@BY
@CELLS
async def test_without_trouble(clock, station, cell: Cell, by: By):
    """A success acks, one failure requeues, two dead-letter once, and a malformed body is dead at once."""
    here = station(cell, by)
    async with here.open():
        await here.publish()
        await here.settled()
    CLEAN[cell].check_on(here)
    assert {down.end for down in here.heard(SessionDown)} == {"SHUTDOWN"}
    assert here.calls == [False, True][: len(here.calls)]


@BY
@TROUBLE
@pytest.mark.parametrize("cell", ["ok", "once"])
async def test_what_needs_no_dlx_goes_on_without_it(clock, station, cell: Cell, by: By, trouble: Trouble):
    """A success and a single failure are settled as ever while craig.dlx routes nowhere or is gone."""
    here = station(cell, by)
    async with here.open():
        await here.spoil(trouble)
        await here.publish()
        await here.settled()
    CLEAN[cell].check_on(here)
    assert here.heard(SettlementFailure) == []


@TROUBLE
@DOOMED
async def test_the_clients_dead_letters_wait_for_the_dlx(clock, station, cell: Cell, trouble: Trouble):
    """While craig.dlx routes nowhere or is gone nothing is acked; declared again and bound, it goes there."""
    here = station(cell, "client")
    async with here.open():
        await here.spoil(trouble)
        await here.publish()
        await here.until(lambda: any(one.stage == "returned" for one in here.heard(SettlementFailure)))
        assert here.statistics.dead_lettered == 0
        await here.bind()
        await here.settled()
    assert here.left == (0, 1)
    assert (here.statistics.acked, here.statistics.dead_lettered) == (0, 1)
    stages = [one.stage for one in here.heard(SettlementFailure)]
    assert stages[0] == {"unroutable": "returned", "missing": "unknown"}[trouble]
    repaired = [event.what for event in here.heard(TopologyRepaired)]
    assert repaired == {"unroutable": [], "missing": ["exchange craig.dlx"]}[trouble]


@TROUBLE
@DOOMED
async def test_the_brokers_dead_letters_are_lost_without_the_dlx(
    clock, station, cell: Cell, trouble: Trouble
):
    """The bound of "broker", named: without a route RabbitMQ drops what is rejected, in silence."""
    here = station(cell, "broker")
    async with here.open():
        await here.spoil(trouble)
        await here.publish()
        await here.settled()
        await here.bind()
    assert here.left == (0, 0)
    assert here.statistics.dead_lettered == 1
    assert here.heard(SettlementFailure) == []


FAILING: dict[tuple[By, Cell], tuple[Settlement, Expected, str]] = {
    ("client", "ok"): ("ack", Expected(1, 0, 0, 2, (0, 0)), "ack"),
    ("client", "once"): ("requeue", Expected(1, 0, 0, 2, (0, 0)), "nack"),
    ("client", "twice"): ("ack", Expected(0, 1, 1, 2, (0, 1)), "nack"),
    ("client", "malformed"): ("ack", Expected(0, 0, 1, 0, (0, 1)), "nack"),
    ("broker", "ok"): ("ack", Expected(1, 0, 0, 2, (0, 0)), "ack"),
    ("broker", "once"): ("requeue", Expected(1, 0, 0, 2, (0, 0)), "nack"),
    ("broker", "twice"): ("reject", Expected(0, None, 1, 3, (0, 1)), "nack"),
    ("broker", "malformed"): ("reject", Expected(0, 0, 1, 0, (0, 1)), "nack"),
}


@BY
@CELLS
async def test_a_settlement_that_fails(clock, station, cell: Cell, by: By):
    """A settlement that fails ends the session unsettled; the next one comes to the same end, once."""
    here = station(cell, by)
    here.sabotage.fails, expected, stage = FAILING[by, cell]
    async with here.open():
        await here.publish()
        await here.settled()
    expected.check_on(here)
    assert [failure.stage for failure in here.heard(SettlementFailure)] == [stage]
    assert [down.end for down in here.heard(SessionDown)] == ["SETTLEMENT_FAILED", "SHUTDOWN"]
    absorbed = by == "client" and cell in {"twice", "malformed"}
    assert here.statistics.duplicates_absorbed == absorbed


AT_SHUTDOWN: dict[Cell, tuple[int | None, Expected]] = {
    "ok": (1, Expected(1, 0, 0, 1, (0, 0))),
    "once": (1, Expected(0, 1, 0, 1, (1, 0))),
    "twice": (2, Expected(0, 1, 1, 2, (0, 1))),
    "malformed": (None, Expected(0, 0, 1, 0, (0, 1))),
}


@BY
@CELLS
async def test_a_shutdown_in_the_middle(clock, station, cell: Cell, by: By):
    """A shutdown lets what runs finish: a handler's verdict is settled, a dead letter gets its confirm."""
    here = station(cell, by)
    here.hold_call, expected = AT_SHUTDOWN[cell]
    async with here.open():
        if cell == "malformed" and by == "client":
            here.held, here.sabotage.hold = here.sabotage.holding, here.let_go
        elif cell == "malformed":
            here.held.set()  # a reject waits for nothing: there is no middle
        await here.publish()
        with trio.fail_after(10):
            await here.held.wait()
        if here.by == "broker" and cell == "malformed":
            await here.settled()
        here.subscription.shutdown()
        await trio.sleep(0.1)
        here.let_go.set()
        await here.subscription.wait_closed()
    expected.check_on(here)
    assert [down.end for down in here.heard(SessionDown)] == ["SHUTDOWN"]
