"""The experiment on the actual runtime and the embedded broker, against the model."""

import random

import attrs
import pytest

from craig_mq.live.comparison import compare
from craig_mq.live.differences import named_differences, unexplained
from craig_mq.live.stages import run_embedded
from craig_mq.review.events import MESSAGES
from craig_mq.review.lessons import LESSONS
from craig_mq.review.params import PARAMETERS, Params, WholeNumber

LESSON = {lesson.name: lesson.params for lesson in LESSONS}


def drawn(seed):
    """Parameters drawn from all nine domains, bounds and listed choices as likely as all the rest."""
    chance = random.Random(seed)
    values = {}
    for parameter in PARAMETERS:
        domain = parameter.domain
        choices = [*domain.listed]
        if isinstance(domain, WholeNumber):
            choices += [domain.low, domain.high, chance.randint(domain.low, domain.high)]
        values[parameter.name] = chance.choice(choices)
    return Params.from_values(values)


def assert_as_modeled(params):
    """Effects, end states and every receive are the model's, and nothing differs without a name."""
    compared = compare(run_embedded(params))
    assert compared.agrees, params
    assert unexplained(compared) == (), params
    assert set(compared.live.receives) == set(compared.modeled_receives), params
    return compared


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_ends_as_modeled(lesson):
    """Each lesson has exactly the modeled effects, end states, times and receives."""
    assert_as_modeled(lesson.params)


@pytest.mark.parametrize("seed", range(4))
def test_drawn_parameters_end_as_modeled(seed):
    """Parameters drawn from their whole domains end exactly as modeled."""
    assert_as_modeled(drawn(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 200))
def test_many_drawn_parameters_end_as_modeled(seed):
    """Two hundred parameter sets from their whole domains end exactly as modeled."""
    assert_as_modeled(drawn(seed))


def test_an_interval_of_zero_and_a_budget_of_one_are_named():
    """What the runtime cannot express as such, no interval and one receive, is named where it was met."""
    compared = assert_as_modeled(Params(max_receives=1, retry_interval=0))
    names = {difference.name for difference in named_differences(compared)}
    assert {"a budget of one parks nothing", "the shortest wait is one second"} <= names


def test_the_ack_is_really_lost():
    """Each lost ack costs a session and a redelivery: three receives of uncertain need two more sessions."""
    compared = assert_as_modeled(Params(max_receives=3, action="hold"))
    uncertain, healthy = (compared.live.endings[name] for name in ("uncertain", "healthy"))
    assert uncertain.acks_lost == 2
    assert uncertain.statistics.sessions == healthy.statistics.sessions + 2
    assert uncertain.reason == "permanent"
    assert (uncertain.error, uncertain.copies) == ("ack-lost", 1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda live: attrs.evolve(live, effects=live.effects[:-1]), "modeled Side"),
        (lambda live: attrs.evolve(live, receives=live.receives[:-1]), "others than"),
        (lambda live: attrs.evolve(live, end_at=live.end_at + 1), "Times"),
        (
            lambda live: attrs.evolve(
                live,
                endings={name: attrs.evolve(live.endings[name], copies=2) for name in MESSAGES},
            ),
            "2 copies",
        ),
    ],
    ids=["effect", "receives", "time", "copies"],
)
def test_a_difference_without_a_name_is_told(spoil, words):
    """A run with a missing effect, another receive, a late end or a second copy is unexplained."""
    assert words in " ".join(unexplained(compare(spoil(run_embedded(Params(action="hold"))))))
