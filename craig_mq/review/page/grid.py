"""Every combination of listed choices, collapsed to the runs that differ in more than their times."""

import base64
import json
import zlib
from bisect import bisect_left
from collections.abc import Hashable, Iterator
from itertools import product
from typing import assert_never

from attrs import evolve, frozen

from craig_mq.review.events import (
    Completed,
    Delivered,
    Drained,
    Event,
    Expired,
    Inspected,
    Redriven,
    Repaired,
)
from craig_mq.review.model import Run, simulate
from craig_mq.review.page.moments import on_moments
from craig_mq.review.page.pool import Pool
from craig_mq.review.page.view import timeless_view
from craig_mq.review.params import PARAMETERS, Params


@frozen
class Grid:
    """`nodes` is the pool, `roots[n]` the node of distinct run n, `runs` the run of each combination.

    Combinations are numbered as `itertools.product` counts: the last parameter's choices change fastest.
    """

    nodes: tuple[object, ...]
    roots: tuple[int, ...]
    runs: tuple[int, ...]

    def packed(self) -> str:
        """Return the whole grid deflated and in base64, as the page's data block."""
        text = json.dumps(
            {"nodes": self.nodes, "roots": self.roots, "runs": self.runs}, separators=(",", ":")
        )
        return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def build_grid() -> Grid:
    """Simulate every listed combination once; takes some ten seconds."""
    pool, roots = Pool(), list[int]()
    known: dict[Hashable, int] = {}
    likeness: dict[Params, int] = {}
    runs = list[int]()
    for params in combinations():
        alike = _without_idle_choices(params)
        if alike not in likeness:
            run = simulate(alike)
            shape = _shape(run)
            if shape not in known:
                known[shape] = len(roots)
                roots.append(pool.add(timeless_view(simulate(on_moments(alike)))))
            likeness[alike] = known[shape]
        runs.append(likeness[alike])
    return Grid(tuple(pool.nodes), tuple(roots), tuple(runs))


def combinations() -> Iterator[Params]:
    """Yield every combination of listed choices, in the order the page numbers them."""
    names = [parameter.name for parameter in PARAMETERS]
    for values in product(*(parameter.domain.listed for parameter in PARAMETERS)):
        yield Params.from_values(dict(zip(names, values, strict=True)))


def _without_idle_choices(params: Params) -> Params:
    """Return the same experiment with the choices that can't matter in it at one fixed value.

    Every message enters quarantine with the last source delivery, so all are as old as the operator's wait.
    """
    expired = params.operator_wait >= params.quarantine_retention
    idle = expired or params.action == "hold"  # nothing is repaired or redriven
    return evolve(
        params,
        quarantine_retention=0 if expired else 300,
        repair=idle or params.repair,
        identity="stable" if idle else params.identity,
        result_retention=params.result_retention if params.dedup else 0,  # else nothing is ever stored
    )


def _shape(run: Run) -> Hashable:
    """Return what tells runs apart besides their times: what each transition did, and when results lapse."""
    times = [event.at for event in run.events]
    lapses = (
        bisect_left(times, event.expires_at)
        for event in run.events
        if isinstance(event, Delivered) and event.expires_at is not None
    )
    return (*map(_deed, run.events), *lapses)


def _deed(event: Event) -> Hashable:
    match event:
        case Delivered():
            return (event.key, event.cycle, event.result, event.failure, event.status)
        case Inspected():
            return (event.kind, event.action)
        case Redriven():
            return (event.kind, event.key)
        case Expired():
            return (event.kind, event.message)
        case Drained() | Repaired() | Completed():
            return event.kind
        case _:
            assert_never(event)
