"""The offline grid: read back node by node, every listed combination gives exactly its own run."""

import base64
import json
import random
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.review import Params, simulate
from craig_mq.review.page.grid import combinations
from craig_mq.review.page.moments import Moment, on_moments
from craig_mq.review.page.pool import Pool
from craig_mq.review.page.view import view

pytestmark = pytest.mark.timeout(900)  # set-up included: 129,024 runs
MARK = re.compile("⟨(-?[0-9]+),(-?[0-9]+),(-?[0-9]+)⟩")


def read(nodes, number, times):
    """Read one value back from the pool, marks filled in with three times."""
    node = nodes[number]
    if isinstance(node, str):
        filled = MARK.sub(lambda mark: str(sum(int(mark[i + 1]) * times[i] for i in range(3))), node)
        return int(filled) if MARK.fullmatch(node) else filled
    if not isinstance(node, list | tuple):
        return node
    if node[0] == 0:
        return [read(nodes, item, times) for item in node[1:]]
    keys = read(nodes, node[1], times)
    return {key: read(nodes, item, times) for key, item in zip(keys, node[2:], strict=True)}


def test_every_sampled_combination_reads_back_exactly(grid):
    """For 1,000 seeded combinations out of all, the packed grid holds the run's whole view, bit for bit."""
    packed = json.loads(zlib.decompress(base64.b64decode(grid.packed())))
    every = list(combinations())
    assert len(every) == len(packed["runs"]) == len(set(every)) == 129_024
    for number in random.Random(7).sample(range(len(every)), 1_000):
        params = every[number]
        times = (params.retry_interval, params.operator_wait, params.result_retention)
        shown = read(packed["nodes"], packed["roots"][packed["runs"][number]], times)
        shown["run"]["parameters"] = params.as_dict()
        assert shown == json.loads(json.dumps(view(simulate(params)))), params


def test_the_grid_is_small(grid):
    """The listed combinations collapse to some hundred runs that deflate to less than 200 kB."""
    assert len(grid.roots) < 2_000
    assert len(grid.packed()) < 200_000


@given(st.tuples(st.integers(0, 300), st.integers(0, 300)), st.tuples(*[st.integers(-3, 3)] * 6))
def test_moments_add_up(values, coefficients):
    """Sums and differences of moments are those of their numbers and of their coefficients."""
    one, other = Moment.of(values[0], *coefficients[:3]), Moment.of(values[1], *coefficients[3:])
    total, difference = one + other, one - other
    assert (total, difference) == (values[0] + values[1], values[0] - values[1])
    assert total.coefficients == tuple(a + b for a, b in zip(coefficients[:3], coefficients[3:], strict=True))
    assert difference.coefficients == tuple(
        a - b for a, b in zip(coefficients[:3], coefficients[3:], strict=True)
    )
    assert f"{0 + one:3d}" == str(one) == one.mark


def test_a_run_on_moments_is_the_same_run():
    """Running on moments changes no event, and every time of the run is a sum of the three."""
    params = Params(retry_interval=7, operator_wait=31, result_retention=90)
    plain, remembered = simulate(params), simulate(on_moments(params))
    assert remembered.events == plain.events
    for event in remembered.events:
        if isinstance(event.at, Moment):
            a, b, c = event.at.coefficients
            assert event.at == 7 * a + 31 * b + 90 * c


def test_the_pool_keeps_kinds_apart():
    """Equal parts are stored once; 1, true and "1" are three different parts."""
    pool = Pool()
    assert pool.add([1, True, "1"]) == pool.add([1, True, "1"])
    assert len({pool.add(1), pool.add(True), pool.add("1")}) == 3
    assert read(pool.nodes, pool.add({"a": [1, True, None], "b": {}}), (0, 0, 0)) == {
        "a": [1, True, None],
        "b": {},
    }
