"""``craig-mq parking`` as an operator types it."""

import time
from pathlib import Path


def test_list_tells_when_a_message_is_due(bench) -> None:
    """The list gives the time each parked message is due, and leaves the queue as it was."""
    now = time.time()
    bodies = bench.fill(
        bench.capture(reason=None, at_s=now - 60), bench.capture(reason=None, at_s=now), queue=bench.parking
    )
    rows = bench.json("parking", "list", "--parking-ttl", "5m")["rows"]
    assert [row["reason"] for row in rows] == ["parked", "parked"]
    assert rows[0]["due_at"] < rows[1]["due_at"]
    text = bench.run("parking", "list", "--parking-ttl", "30s").output
    assert " now " in text or text.splitlines()[1].startswith("now")
    assert bench.bodies(bench.parking) == bodies


def test_release_sends_the_planned_messages_back_unchanged(bench, tmp_path: Path) -> None:
    """A release plans first, then sends exactly the plan back as the replayer would, acked after confirms."""
    bodies = bench.fill(
        *(bench.capture(reason=None, error="ab"[n % 2]) for n in range(6)), queue=bench.parking
    )
    plan = tmp_path / "early.json"
    told = bench.json("parking", "release", "--plan", plan, "--where", "error=a")
    assert told["selected"] == 3
    assert bench.bodies(bench.parking) == bodies
    done = bench.json(
        *("parking", "release", "--plan", plan, "--yes", 3, "--reason", "outage over", "--rate", "1000")
    )
    assert (done["plan"], done["redriven"]) == (3, 3)
    assert bench.bodies(bench.parking) == bodies[1::2]
    assert bench.bodies(bench.queue) == bodies[0::2]


def test_a_plan_for_parking_is_no_plan_for_quarantine(bench, tmp_path: Path) -> None:
    """A plan names the queue it was made from and is refused for any other."""
    bench.fill(bench.capture(reason=None), queue=bench.parking)
    plan = tmp_path / "early.json"
    bench.run("parking", "release", "--plan", plan)
    refused = bench.run("quarantine", "redrive", "--plan", plan, "--yes", 1, "--reason", "x", exit_code=2)
    assert "the plan is for security.dlq.parking" in refused.output
