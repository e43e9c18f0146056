"""Classification of ends: once, by precedence, over all leaves."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from supervisors import (
    Cancelled,
    Completed,
    Drained,
    EndClass,
    Failed,
    Fatal,
    SettlementError,
    SettlementFailed,
    is_abnormal,
)
from supervisors.exits import Interrupted, Raised, Returned, StartTimedOut, classify, error_of, leaves

ORDER = list(EndClass)
ERRORS = {
    EndClass.FATAL: KeyboardInterrupt,
    EndClass.SETTLEMENT_FAILED: lambda: SettlementError("ack"),
    EndClass.FAILED: lambda: ValueError("bug"),
}


@given(
    st.lists(st.sampled_from(list(ERRORS)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_the_first_class_in_the_order_names_the_end(kinds, cancelled, draining, random):
    """S13, S15: fatal > cancelled > settlement > other > drained > completed."""
    random.shuffle(kinds)
    outcome = Raised(BaseExceptionGroup("all", [ERRORS[kind]() for kind in kinds]))
    end = classify(outcome, cancel_reason="stop" if cancelled else None, draining=draining)
    candidates = {*kinds, *([EndClass.CANCELLED] if cancelled else [])}
    assert end.end_class is min(candidates, key=ORDER.index)


@pytest.mark.parametrize(
    ("outcome", "draining", "expected"),
    [
        (Returned(None), False, Completed()),
        (Returned(None), True, Drained()),
        (Returned(SettlementFailed("x")), True, SettlementFailed("x")),
        (Returned(Failed("x")), False, Failed("x")),
        (Returned("anything else"), False, Completed()),
        (Interrupted(), False, Completed()),
    ],
)
def test_a_body_may_return_its_end(outcome, draining, expected):
    """S13: a body returns None, SettlementFailed or Failed."""
    assert classify(outcome, cancel_reason=None, draining=draining) == expected


def test_cancelled_means_a_cancel_was_issued():
    """S15: a stray Cancelled without a cancel of this generation is a failure; with one."""
    stray = ValueError("looks like a cancellation")
    assert classify(Raised(stray), cancel_reason=None, draining=False) == Failed(stray)
    assert classify(Raised(stray), cancel_reason="stop", draining=False) == Cancelled("stop", Failed(stray))
    assert classify(Interrupted(), cancel_reason="stop", draining=False) == Cancelled("stop")
    lost = classify(Returned(SettlementFailed("x")), cancel_reason="stop", draining=True)
    assert lost == Cancelled("stop", SettlementFailed("x"))


def test_no_leaf_of_a_group_is_dropped():
    """S16: a group is classified over all its leaves and kept whole in the end."""
    group = ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [SettlementError("a"), OSError()])])
    end = classify(Raised(group), cancel_reason=None, draining=False)
    assert end == SettlementFailed(group)
    error = error_of(end)
    assert error is not None
    assert [type(leaf) for leaf in leaves(error)] == [ValueError, SettlementError, OSError]


def test_leaves_beyond_exception_are_fatal():
    """S17: KeyboardInterrupt, SystemExit and any other non-Exception leaf make the end fatal."""
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
        error = BaseExceptionGroup("g", [ValueError(), kind()])
        assert classify(Raised(error), cancel_reason="stop", draining=False) == Fatal(error)


async def test_a_leaked_trio_cancelled_is_not_fatal():
    """S17: trio.Cancelled itself is no fatal leaf."""
    leaked: list[BaseException] = []
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            leaked.append(error)
            raise
    assert classify(Raised(leaked[0]), cancel_reason=None, draining=False) == Failed(leaked[0])


def test_every_end_gives_out_its_error():
    """S16: the exception an end carries can be had from every class of end."""
    bug = ValueError("bug")
    assert error_of(Fatal(bug)) is bug
    assert error_of(Cancelled("stop")) is None
    assert error_of(Cancelled("stop", Failed(bug))) is bug
    assert error_of(Failed(StartTimedOut(1.0, bug))) is bug
    assert error_of(Failed("text")) is None
    assert error_of(Completed()) is None
    assert Drained().end_class is EndClass.DRAINED


def test_transient_children_restart_after_these():
    """S18: settlement failures and failures are abnormal, all other ends are not."""
    abnormal = [end for end in (SettlementFailed(), Failed(), Completed(), Drained()) if is_abnormal(end)]
    assert abnormal == [SettlementFailed(), Failed()]
