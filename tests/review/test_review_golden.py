"""Golden scenarios: what the experiment's description states, case by case."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from craig_mq.review import ParameterError, Params, caption, outcome, simulate, trace

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
STATED = [scenario for scenario in GOLDEN["scenarios"] if "error" not in scenario["expect"]]
REFUSED = [scenario for scenario in GOLDEN["scenarios"] if "error" in scenario["expect"]]


def agrees(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether every expected entry is there, nested objects by their stated entries only."""
    return all(
        agrees(actual[name], value) if isinstance(value, dict) else actual[name] == value
        for name, value in expected.items()
    )


def test_the_defaults_are_the_stated_ones():
    """A new experiment starts with the nine stated defaults."""
    assert Params().as_dict() == GOLDEN["defaults"]


@pytest.mark.parametrize("scenario", STATED, ids=lambda scenario: scenario["id"])
def test_a_stated_scenario_holds(scenario):
    """Each stated scenario ends as stated: outcome, captions and trace to the letter."""
    run, expect = simulate(Params(**scenario["parameters"])), scenario["expect"]
    assert agrees(outcome(run), expect.get("outcome", {})), outcome(run)
    for index, sentence in expect.get("captions", {}).items():
        assert caption(run, int(index)) == sentence
    if "trace" in expect:
        assert list(trace(run)) == expect["trace"]


@pytest.mark.parametrize("scenario", REFUSED, ids=lambda scenario: scenario["id"])
def test_a_stated_refusal_names_its_field(scenario):
    """Each stated bad value is refused with an error naming its field."""
    with pytest.raises(ParameterError) as caught:
        Params(**scenario["parameters"])
    assert caught.value.field == scenario["expect"]["error"]
