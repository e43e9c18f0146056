"""Parameters and their texts: nothing clamped, nothing coerced, and every error names its field."""

import contextlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.review import ParameterError, Params, from_query, to_query
from craig_mq.review.params import BY_NAME, PARAMETERS, WholeNumber
from craig_mq.review.query import step_from_query

ANY = st.builds(
    Params,
    **{
        parameter.name: st.integers(*parameter.domain.bounds)
        if isinstance(parameter.domain, WholeNumber)
        else st.sampled_from(parameter.domain.listed)
        for parameter in PARAMETERS
    },
)
NUMBERS = [parameter.name for parameter in PARAMETERS if isinstance(parameter.domain, WholeNumber)]


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_included_and_final(name):
    """Both bounds of a number are allowed; one beyond either is refused, with the bounds in the error."""
    low, high = BY_NAME[name].domain.bounds
    for allowed in (low, high):
        assert getattr(Params(**{name: allowed}), name) == allowed
    for refused in (low - 1, high + 1):
        with pytest.raises(
            ParameterError, match=f"{name} must be a whole number from {low} to {high}"
        ) as caught:
            Params(**{name: refused})
        assert (caught.value.field, caught.value.value, caught.value.bounds) == (name, refused, (low, high))


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [True, False, 2.0, "2", None, float("nan")])
def test_a_number_is_a_whole_number(name, value):
    """Bools, floats, texts and nothing are not numbers, whatever they are worth."""
    with pytest.raises(ParameterError) as caught:
        Params(**{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("action", "transient"),
        ("action", 1),
        ("identity", "Stable"),
        ("repair", 1),
        ("dedup", "true"),
        ("dedup", None),
    ],
)
def test_a_choice_is_spelled_exactly(name, value):
    """Choices and switches take exactly their own values, and the error lists them."""
    with pytest.raises(ParameterError) as caught:
        Params(**{name: value})
    assert caught.value.field == name
    assert caught.value.bounds == BY_NAME[name].domain.bounds


def test_an_unknown_name_is_refused():
    """An unknown parameter is refused by name, with the known names."""
    with pytest.raises(ParameterError, match="speed must be a known parameter") as caught:
        Params.from_values({"speed": 2})
    assert caught.value.field == "speed"
    assert "max_receives" in caught.value.bounds


def test_a_huge_value_is_not_echoed_whole():
    """An error's sentence stays one short line however long the value was."""
    with pytest.raises(ParameterError) as caught:
        Params.from_text({"max_receives": "9" * 100_000})
    assert len(str(caught.value)) < 120
    with pytest.raises(ParameterError, match="a number of 20001 bits"):
        Params(max_receives=1 << 20_000)


@given(ANY, st.none() | st.integers(0, 99))
def test_a_query_brings_its_parameters_back(params, step):
    """Writing parameters and step to a query and reading it gives both back."""
    query = to_query(params, step)
    assert from_query(query) == params
    assert from_query("?" + query) == params
    assert from_query("#" + query) == params
    assert step_from_query(query) == step


def test_a_query_writes_only_what_differs():
    """The defaults need no query, and one change needs one pair."""
    assert to_query(Params()) == ""
    assert to_query(Params(repair=False), 17) == "fix=0&i=17"
    every = "n=2&r=5&w=20&a=all&fix=1&d=1&id=stable&rr=60&qr=120&i=17"
    assert (from_query(every), step_from_query(every)) == (Params(), 17)


def test_unknown_query_keys_are_ignored():
    """A link from a newer page still opens: unknown keys change nothing."""
    assert from_query("utm_source=mail&n=3&n2=9&=") == Params(max_receives=3)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("n=0", "max_receives"),
        ("n=", "max_receives"),
        ("n=2.0", "max_receives"),
        ("n=+2", "max_receives"),
        ("n=٣", "max_receives"),
        ("r=-1", "retry_interval"),
        ("a=everything", "action"),
        ("fix=yes", "repair"),
        ("rr=1e2", "result_retention"),
        ("n=2&n=3", "n"),
    ],
)
def test_a_bad_query_value_names_its_parameter(query, field):
    """A bad value of a known key is an error naming the parameter; nothing is clamped or guessed."""
    with pytest.raises(ParameterError) as caught:
        from_query(query)
    assert caught.value.field == field


@pytest.mark.parametrize("query", ["i=-1", "i=x", "i=99999", "i=1&i=2"])
def test_a_bad_step_is_refused(query):
    """A step that is no small whole number is an error naming `i`."""
    with pytest.raises(ParameterError) as caught:
        step_from_query(query)
    assert caught.value.field == "i"


@given(st.text())
def test_any_query_text_is_read_or_refused(query):
    """Whatever the text, reading it gives parameters or a ParameterError, nothing else."""
    with contextlib.suppress(ParameterError):
        assert isinstance(from_query(query), Params)


def test_exports_are_equal_across_processes():
    """The export does not depend on the process: two hash seeds give the same bytes."""
    code = "from craig_mq.review import *; print(end=export(simulate(Params(identity='new'))))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert texts.pop().endswith(b"}\n")


def test_the_model_stands_alone():
    """Importing the review brings no event loop, server or client with it."""
    code = (
        "import sys, craig_mq.review; "
        "print(sorted({'trio', 'asyncio', 'starlette', 'anycorn', 'click', 'aio_pika'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": "."}, capture_output=True, check=True
    )
    assert done.stdout.strip() == b"[]"
