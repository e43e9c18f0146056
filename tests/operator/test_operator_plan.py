"""Verdicts, plan files and pace."""

from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.capture_format import QuarantineReason
from craig_mq.core.delivery import Delivery
from craig_mq.operator.errors import BadCondition, BadPlan
from craig_mq.operator.pace import Pace, parse_ramp, parse_rate
from craig_mq.operator.plan import read_plan, write_plan
from craig_mq.operator.row import read_row
from craig_mq.operator.verdict import Knowledge, Verdict, judge

HOUR_S = 3_600.0


@pytest.fixture
def known(ward) -> Knowledge:
    """Nothing but the clock and the hot window is known."""
    return Knowledge(queue=ward.queue, now_s=ward.now_s, hot_window_s=24 * HOUR_S)


def _row(body: bytes):
    return read_row(Delivery(1, "", "q", False, body), 0)


def test_each_verdict_has_its_cause(ward, known) -> None:
    """Every verdict follows from the capture, the hot window, the ledger and the operator's choices."""
    young, old = _row(ward.capture(age_s=HOUR_S)), _row(ward.capture(age_s=25 * HOUR_S))
    hot = attrs.evolve(known, recorded={young.token: True, old.token: False})
    capped = _row(ward.capture(reason=QuarantineReason.PARK_CAP_EXHAUSTED))
    cases = (
        (young, known, True, Verdict.RUNS_AGAIN),
        (old, known, True, Verdict.MAY_DUPLICATE),
        (young, hot, True, Verdict.ABSORBED),
        (old, hot, True, Verdict.MAY_DUPLICATE),
        (old, attrs.evolve(known, recorded={}), True, Verdict.RUNS_AGAIN),
        (_row(ward.capture(token=False)), known, True, Verdict.MAY_DUPLICATE),
        (young, attrs.evolve(hot, new_identity=True), True, Verdict.MAY_DUPLICATE),
        (capped, known, True, Verdict.RUNS_AGAIN),
        (capped, attrs.evolve(known, keep_park_count=True), True, Verdict.WILL_RETURN),
        (young, known, False, Verdict.COPY),
        (young, attrs.evolve(known, redriven=frozenset({young.key})), True, Verdict.COPY),
        (_row(ward.malformed()), known, True, Verdict.NOT_REDRIVABLE),
        (_row(b"junk"), known, True, Verdict.NOT_REDRIVABLE),
        (_row(ward.capture(key="no.prefix")), known, True, Verdict.NOT_REDRIVABLE),
        (_row(ward.capture(key="dlq." + "x" * 252)), known, True, Verdict.NOT_REDRIVABLE),
        (young, attrs.evolve(known, queue="other.dlq"), True, Verdict.NOT_REDRIVABLE),
    )
    for row, knowledge, first, verdict in cases:
        judged = judge(row, knowledge, first=first)
        assert judged.verdict is verdict
        assert judged.why


async def test_a_plan_survives_its_file(autojump_clock, desk, ward, fill, tmp_path: Path) -> None:
    """A plan is read back as it was written, from a file only its owner can read, under one SHA-256."""
    body = ward.capture()
    fill(body, body, ward.malformed(), ward.capture(token=False))
    plan = await desk.plan()
    assert [entry.verdict for entry in plan.entries] == [
        "runs again",
        "copy",
        "not redrivable",
        "may duplicate",
    ]
    path = tmp_path / "plan.json"
    digest = write_plan(plan, path)
    assert read_plan(path) == (plan, digest)
    assert path.stat().st_mode & 0o077 == 0
    assert plan.counts()["selected"] == 2
    with pytest.raises(FileExistsError):
        write_plan(plan, path)


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    """A missing, foreign or edited plan file is refused in one line."""
    path = tmp_path / "plan.json"
    with pytest.raises(BadPlan, match="cannot read"):
        read_plan(path)
    path.write_text('{"format": "craig_mq.plan/2"}')
    with pytest.raises(BadPlan, match="no plan of this version"):
        read_plan(path)


async def test_a_plan_that_selects_twice_is_refused(autojump_clock, desk, ward, fill, tmp_path) -> None:
    """A plan edited to select one message twice is refused: the account could not add up."""
    fill(ward.capture())
    plan = await desk.plan()
    path = tmp_path / "plan.json"
    write_plan(type(plan)(**{**_fields(plan), "entries": plan.entries * 2}), path)
    with pytest.raises(BadPlan, match="twice"):
        read_plan(path)


def _fields(plan) -> dict[str, object]:
    return {name: getattr(plan, name) for name in plan.__struct_fields__}


def test_a_ramp_holds_each_rate_for_its_time() -> None:
    """A ramp of 1, 2, 5 sends ten messages in its first step, twenty in the second, then five a second."""
    pace = Pace((1.0, 2.0, 5.0), step_s=10.0)
    assert [pace.due(sent) for sent in (0, 9, 10, 29, 30, 35)] == [0, 9, 10, 19.5, 20, 21]


@given(st.lists(st.floats(0.5, 100), min_size=1, max_size=4), st.integers(0, 500))
def test_a_pace_never_goes_back(rates: list[float], sent: int) -> None:
    """Each message is due no earlier than the one before it."""
    pace = Pace(tuple(rates))
    assert pace.due(sent) <= pace.due(sent + 1)


def test_rates_are_read_with_their_unit() -> None:
    """Rates are a number a second or a minute, and anything else is refused."""
    assert (parse_rate("10/s"), parse_rate("10"), parse_rate("30/m")) == (10, 10, 0.5)
    assert parse_ramp("1,2,5,10") == (1, 2, 5, 10)
    with pytest.raises(BadCondition, match="is no rate"):
        parse_rate("fast")
    with pytest.raises(BadCondition, match=r"'1,x' is no ramp: write rates .* such as 1,2,5,10"):
        parse_ramp("1,x")
    with pytest.raises(BadCondition, match="above 0"):
        Pace((0.0,))
