"""The service's tree, the depths over time, and the experiment's numbers."""

from __future__ import annotations

import math

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.console import service as service_module
from craig_mq.console.service import describe
from craig_mq.console.what_if import experiment_query, scale_words, scaled
from craig_mq.operator.row import Row
from craig_mq.operator.status import ServiceUnreachable
from craig_mq.operator.verdict import Knowledge
from craig_mq.review import from_query

AGES = st.floats(0, 1e9, allow_nan=False)


def child(name, state="running", below=None, **more):
    """Return one node of a status document's tree."""
    known = {"generation": 2, "since": 40.0, "timer_at": None, "last_end": None, "supervisor": below}
    return {"id": name, "state": state, **known, **more}


def status(*children):
    """Return a status document at 100 s of its clock."""
    tree = {"children": list(children)}
    return {"state": "recovering", "queue": "q", "clock_s": 100.0, "statistics": {"acked": 3}, "tree": tree}


def test_a_tree_is_told_in_words() -> None:
    """Each node tells its depth, state, since when, its generation, wake-up time and last end."""
    waiting = child("session", "BACKOFF", timer_at=103.4, last_end="settlement: nacked")
    found = describe(status(child("main", below={"children": [waiting]})))
    assert found["counters"] == {"acked": 3}
    assert found["tree"] == [
        {"depth": 0, "id": "main", "state": "running", "words": "for 60 s, generation 2"},
        {
            "depth": 1,
            "id": "session",
            "state": "backoff",
            "words": "for 60 s, generation 2, wakes in 3 s, after settlement: nacked",
        },
    ]


@pytest.mark.parametrize(
    "document", [None, [], {}, {"state": 1, "tree": 3, "clock_s": 0}, {"state": "x", "tree": {}}]
)
def test_a_foreign_document_is_a_failure(document) -> None:
    """Whatever a wrong address answers, the page says so and nothing breaks."""
    assert "form this version does not know" in describe(document)["failure"]


async def test_a_service_is_asked_once_a_second(console, monkeypatch, mock_clock) -> None:
    """However many pages ask, the service is asked at most once a second; its silence is one line."""
    asked = []

    def fetch(address):
        asked.append(address)
        if len(asked) > 1:
            raise ServiceUnreachable(f"no status from {address}: refused")
        return status(child("main"))

    monkeypatch.setattr(service_module, "fetch_status", fetch)
    async with console(service="127.0.0.1:9464") as client:
        await client.open()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.look, "service")
        assert (await client.look("service"))["state"] == "recovering"
        assert asked == ["127.0.0.1:9464"]
        mock_clock.jump(1.5)
        assert "no status from" in (await client.look("service"))["failure"]


async def test_depths_over_time(ward, console, autojump_clock) -> None:
    """Counts come every five seconds, with what this console holds; an unreachable broker leaves a gap."""
    ward.fill(ward.capture(), ward.capture())
    now = [1000.0]
    async with console(now=lambda: now[0]) as client:
        await client.open()
        await trio.sleep(1)
        await client.ask("read")
        now[0] = 1005.0
        await trio.sleep(5)
        samples = (await client.look("state"))["depths"]["samples"]
        assert samples == [[1000.0, 0, 0, 2], [1005.0, 0, 0, 2]]
        await client.ask("hand-back")
        ward.broker.stop()
        now[0] = 1010.0
        await trio.sleep(5)
        depths = (await client.look("state?since=1005"))["depths"]
        assert depths["samples"] == [[1010.0, None, None, None]]
        assert depths["failure"] is not None
        ward.broker.restart()
        await trio.sleep(60)
        assert (await client.look("state"))["depths"]["failure"] is None


@given(age=AGES, window=AGES)
def test_scaling_keeps_which_is_longer(age, window) -> None:
    """The experiment's wait and retention stay in range, and in the order of the message's own numbers."""
    wait, retention = scaled(age, window)
    assert 0 <= wait <= 241
    assert 0 <= retention <= 241
    if age > window:
        assert wait > retention
    if age < window:
        assert wait < retention


@given(age=AGES, attempts=st.integers(0, 2**32), token=st.booleans(), recorded=st.booleans())
def test_every_message_has_its_experiment(age, attempts, token, recorded) -> None:
    """Whatever a capture says, its link opens a valid experiment with its attempts, token and effect."""
    token_text = "occ1:inbox:0" if token else None
    row = Row("k", 0, "permanent", 1, "s", False, token=token_text, at_s=2e9 - age, attempts=attempts)
    rows = {"occ1:inbox:0": True} if recorded else {}
    params = from_query(experiment_query(row, Knowledge("q", 2e9, 86_400.0, recorded=rows)))
    assert params.max_receives == min(max(attempts, 1), 6)
    assert params.dedup is token
    assert params.action == ("uncertain" if token and recorded else "poison")
    assert params.operator_wait < params.quarantine_retention


def test_the_scale_is_said() -> None:
    """What a modeled second stands for is said in words."""
    assert scale_words(10, 100) == "one modeled second is one second"
    assert scale_words(0, 2_592_000) == f"one modeled second stands for {math.ceil(2_592_000 / 240):,} s"
