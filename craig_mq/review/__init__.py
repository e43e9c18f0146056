"""The dead-letter review: a deterministic experiment on quarantine, redrive and committed effects.

    run = simulate(Params(identity="new"))
    outcome(run)["effects_total"]        # 5
    caption(run, 8)                      # "Step 8 of 17, modeled time 5 s: ..."

Everything exported here is pure: no clock, no I/O, no event loop. The page lives in `craig_mq.review.page`.
"""

from craig_mq.review.export import export
from craig_mq.review.model import Run, simulate
from craig_mq.review.outcomes import Outcome, caption, outcome
from craig_mq.review.params import ParameterError, Params
from craig_mq.review.query import from_query, to_query
from craig_mq.review.trace import trace

__all__ = [
    "Outcome",
    "ParameterError",
    "Params",
    "Run",
    "caption",
    "export",
    "from_query",
    "outcome",
    "simulate",
    "to_query",
    "trace",
]
