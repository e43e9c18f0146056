"""Dispositions: what a handler's failure means (ADR-059 §error taxonomy)."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.disposition import Disposition, DlqError, disposition_of, interruption_in

PERMANENT = Disposition.PERMANENT
RETRY = Disposition.TRANSIENT_RETRY
PARK = Disposition.TRANSIENT_PARK


def _error(disposition: Disposition) -> DlqError[ValueError]:
    return DlqError(disposition, source=ValueError("boom"))


def _leaf(name: str) -> Exception:
    return ValueError("plain") if name == "plain" else _error(Disposition(name))


def test_the_wire_names_of_dispositions_are_lower_case() -> None:
    """The three dispositions are named transient_retry, transient_park and permanent."""
    assert [disposition.value for disposition in Disposition] == [
        "transient_retry",
        "transient_park",
        "permanent",
    ]


def test_a_dlq_error_keeps_its_source_unerased() -> None:
    """A DlqError carries its disposition and the very source object, and speaks with the source's text."""
    source = KeyError("customer")
    error = DlqError(PERMANENT, source=source)
    assert error.disposition is PERMANENT
    assert error.source is source
    assert str(error) == str(source)


class _Computed(DlqError[ValueError]):
    @property
    def disposition(self) -> Disposition:  # type: ignore[override]
        raise RuntimeError("no rule for this one")

    @disposition.setter
    def disposition(self, _: object) -> None:
        pass


def test_a_disposition_that_is_none_parks() -> None:
    """What was put in a disposition's place later, or cannot be read, parks as any unknown error does."""
    assigned = _error(PERMANENT)
    assigned.disposition = "permanent"  # type: ignore[assignment]
    assert disposition_of(assigned) is PARK
    assert disposition_of(_Computed(PERMANENT, source=ValueError("boom"))) is PARK


def test_a_misspelt_disposition_is_refused() -> None:
    """A DlqError cannot be made with anything but a Disposition."""
    with pytest.raises(TypeError, match="must be a Disposition"):
        DlqError("permanent", source=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("disposition", list(Disposition))
def test_a_single_error_means_what_it_says(disposition: Disposition) -> None:
    """A DlqError alone stands for its own disposition."""
    assert disposition_of(_error(disposition)) is disposition


@pytest.mark.parametrize("error", [ValueError(), OSError(), RuntimeError("permanent"), AssertionError()])
def test_any_other_exception_is_parked(error: Exception) -> None:
    """An exception that is no DlqError is TRANSIENT_PARK: the fail-safe default."""
    assert disposition_of(error) is PARK


@pytest.mark.parametrize(
    ("leaves", "meaning"),
    [
        (["permanent"], PERMANENT),
        (["permanent", "permanent"], PERMANENT),
        (["transient_retry", "transient_retry"], RETRY),
        (["permanent", "transient_park"], PARK),
        (["permanent", "transient_retry"], PARK),
        (["permanent", "plain"], PARK),
        (["transient_retry", "plain"], PARK),
        (["plain"], PARK),
    ],
)
def test_a_group_means_only_what_every_leaf_says(leaves: list[str], meaning: Disposition) -> None:
    """EXG-01: all leaves PERMANENT may quarantine, any mix is TRANSIENT_PARK, nested or not."""
    group = ExceptionGroup("handler's nursery", [_leaf(name) for name in leaves])
    assert disposition_of(group) is meaning
    assert disposition_of(ExceptionGroup("outer", [ExceptionGroup("middle", [group])])) is meaning


async def test_a_handlers_own_nursery_is_seen_through() -> None:
    """EXG-01: a DlqError(PERMANENT) raised inside a handler's own nursery is still PERMANENT."""

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise _error(PERMANENT)

    with pytest.RaisesGroup(DlqError) as caught:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(trio.sleep_forever)
    assert disposition_of(caught.value) is PERMANENT
    assert interruption_in(caught.value) is None


def test_a_group_deeper_than_the_interpreter_recurses_is_parked() -> None:
    """A group nested 5,000 deep is classified by its leaves without a crash."""
    group: Exception = _error(PERMANENT)
    for _ in range(5_000):
        group = ExceptionGroup("deeper", [group])
    assert disposition_of(group) is PERMANENT
    assert interruption_in(group) is None
    while isinstance(group, ExceptionGroup):  # taken apart by hand: its own destructor recurses
        group = group.exceptions[0]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interruption_is_never_an_outcome(interruption: BaseException) -> None:
    """EXG-01: KeyboardInterrupt and SystemExit are handed back for re-raising, alone or in a group."""
    assert interruption_in(interruption) is interruption
    mixed = BaseExceptionGroup("mixed", [_error(PERMANENT), BaseExceptionGroup("inner", [interruption])])
    part = interruption_in(mixed)
    assert isinstance(part, BaseExceptionGroup)
    assert part.subgroup(lambda leaf: leaf is interruption) is not None
    assert part.subgroup(DlqError) is None


async def test_the_cancelled_part_of_a_group_is_handed_back() -> None:
    """EXG-01: of a group of a DlqError and trio.Cancelled, only the cancelled part is to be re-raised."""
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        with pytest.raises(trio.Cancelled) as caught:
            await trio.lowlevel.checkpoint()
    cancelled = caught.value
    part = interruption_in(BaseExceptionGroup("mixed", [_error(PERMANENT), cancelled]))
    assert isinstance(part, BaseExceptionGroup)
    assert part.exceptions == (cancelled,)


def test_an_ordinary_failure_holds_no_interruption() -> None:
    """Exceptions and groups of exceptions have no part to be re-raised."""
    assert interruption_in(ValueError()) is None
    assert interruption_in(ExceptionGroup("all", [ValueError(), _error(RETRY)])) is None


@given(
    st.recursive(
        st.sampled_from(["permanent", "transient_retry", "transient_park", "plain"]),
        lambda inner: st.lists(inner, min_size=1, max_size=4),
        max_leaves=12,
    )
)
def test_permanent_is_never_guessed(tree: object) -> None:
    """Whatever the nesting, PERMANENT comes out only if every single leaf said PERMANENT."""

    def build(node: object) -> Exception:
        return (
            ExceptionGroup("g", [build(child) for child in node])
            if isinstance(node, list)
            else _leaf(str(node))
        )

    def leaves(node: object) -> list[str]:
        return [leaf for child in node for leaf in leaves(child)] if isinstance(node, list) else [str(node)]

    said = set(leaves(tree))
    assert (disposition_of(build(tree)) is PERMANENT) == (said == {"permanent"})
    assert (disposition_of(build(tree)) is RETRY) == (said == {"transient_retry"})
