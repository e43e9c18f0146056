"""What the page shows of one run: the export's object plus its sentences, all computed here."""

from craig_mq.review.export import run_record
from craig_mq.review.lessons import LESSONS
from craig_mq.review.model import Run
from craig_mq.review.outcomes import caption_of
from craig_mq.review.params import PARAMETERS, Choice, Parameter, WholeNumber
from craig_mq.review.trace import describe


def view(run: Run) -> dict[str, object]:
    """Return the page's object: `run` (the export's object), `captions` and `transitions` in words."""
    return {"run": run_record(run), **_sentences(run)}


def timeless_view(run: Run) -> dict[str, object]:
    """Return the page's object of a run on moments: without its parameters, which the page puts back."""
    record = run_record(run)
    del record["parameters"]
    return {"run": record, **_sentences(run)}


def _sentences(run: Run) -> dict[str, object]:
    last = len(run.events)
    return {
        "captions": [caption_of(snapshot, last) for snapshot in run.snapshots],
        "transitions": [describe(event).replace("->", "→") for event in run.events],
    }


def setup() -> dict[str, object]:
    """Return what the scripts need besides runs: the form's controls and each lesson's parameters."""
    lessons = {lesson.name: lesson.params.as_dict() for lesson in LESSONS}
    return {"parameters": controls(), "lessons": lessons}


def controls() -> list[dict[str, object]]:
    """Return one control per parameter: name, key, label, default, listed choices and their texts."""
    return [_control(parameter) for parameter in PARAMETERS]


def _control(parameter: Parameter) -> dict[str, object]:
    domain = parameter.domain
    control: dict[str, object] = {
        "name": parameter.name,
        "key": parameter.key,
        "label": parameter.label,
        "default": parameter.default,
        "listed": list(domain.listed),
        "texts": [domain.write(value) for value in domain.listed],
        "words": [],
        "unit": "",
    }
    if isinstance(domain, WholeNumber):
        control |= {"unit": domain.unit, "low": domain.low, "high": domain.high}
    elif isinstance(domain, Choice):
        control["words"] = list(domain.words.values())
    return control
