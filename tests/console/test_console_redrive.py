"""Planning and redriving through the console: exactly the plan, bounded, stoppable, written down."""

from __future__ import annotations

import json

import msgspec
import pytest
import trio

from craig_mq.audit import open_store
from craig_mq.audit.operators import read_actions
from craig_mq.operator.lease import lease_queue
from craig_mq.operator.plan import read_plan

TICKED = {"allow_duplicates": True}


async def dry_run(client, **asked):
    """Read, and make the plan that was asked for."""
    await client.open()
    await client.ask("read")
    return await client.ask("plan", **asked)


async def until_over(client):
    """Look once a second until the run has ended."""
    while (run := (await client.look("state"))["run"])["running"]:
        await trio.sleep(1)
    return run


def word(plan, **more):
    """The word that carries a plan out."""
    return {"plan": plan["sha256"], "yes": plan["selected"], "reason": "fixed in 4.2", **more}


async def test_plan_dry_run_and_redrive_exactly_it(ward, console, autojump_clock) -> None:
    """A dry run changes nothing; carrying it out sends back exactly its messages and no other."""
    bodies = ward.fill(*(ward.capture(error="ab"[n % 2]) for n in range(6)), ward.malformed())
    async with console(allow_redrive=True) as client:
        plan = await dry_run(client, where=["error=a"])
        assert (plan["messages"], plan["selected"], plan["by_verdict"]) == (3, 3, {"runs again": 3})
        kept, digest = read_plan(client.desk.plans.find(plan["sha256"]).path)
        assert (digest, len(kept.selected)) == (plan["sha256"], 3)
        assert client.desk.plans.find(plan["sha256"]).path.stat().st_mode & 0o777 == 0o600
        assert ward.quarantined == ()
        run = await client.ask("redrive", **word(plan))
        assert (run["running"], run["total"], run["left"]) == (True, 3, 3)
        run = await until_over(client)
        assert (run["failure"], run["account"]["redriven"], run["account"]["remaining"]) == (None, 3, 0)
        assert "plan 3 = redriven 3 + returned 0 + skipped 0 + remaining 0" in run["sentence"]
        assert ward.quarantined == bodies[1:6:2] + bodies[6:]
        assert len(ward.broker.queue(ward.queue).bodies) == 3


async def test_only_ticked_messages(ward, console, autojump_clock) -> None:
    """A plan over ticked keys holds these alone, and what may duplicate only with its own tick."""
    ward.fill(*(ward.capture(token=n != 1) for n in range(3)))
    async with console() as client:
        await client.open()
        await client.ask("read")
        keys = [row["key"] for row in (await client.ask("rows"))["rows"]]
        plan = await client.ask("plan", keys=keys[1:])
        assert (plan["messages"], plan["selected"]) == (2, 1)
        plan = await client.ask("plan", keys=keys[1:], **TICKED)
        assert (plan["messages"], plan["selected"]) == (2, 2)
        kept = client.desk.plans.find(plan["sha256"]).plan
        assert (kept.made_by, kept.where) == ("olga@host", ("2 ticked",))


async def test_a_read_only_console_plans_and_never_redrives(ward, console, autojump_clock) -> None:
    """Without --allow-redrive the plan is made, and carrying it out is refused and touches nothing."""
    bodies = ward.fill(ward.capture())
    async with console() as client:
        plan = await dry_run(client)
        refused = await client.ask("redrive", status=403, **word(plan))
        assert "--allow-redrive" in refused["error"]
        await client.ask("hand-back")
        assert ward.quarantined == bodies


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"yes": 2}, 422, "the plan selects 1 messages, not 2"),
        ({"reason": "  "}, 422, "say why"),
        ({"reason": ""}, 422, "not understood"),
        ({"pace": "fast"}, 422, "is no rate"),
        ({"pace": "0"}, 422, "a rate is above 0"),
        ({"plan": "0" * 64}, 404, "make the dry run again"),
        ({"plan": "../x"}, 422, "not understood"),
        ({"stop_if_returned": 101}, 422, "not understood"),
    ],
)
async def test_a_redrive_needs_the_right_word(ward, console, autojump_clock, change, status, words) -> None:
    """A wrong count, no reason, a bad pace or an unknown plan is refused, and nothing was done."""
    bodies = ward.fill(ward.capture())
    async with console(allow_redrive=True) as client:
        plan = await dry_run(client)
        refused = await client.ask("redrive", status=status, **{**word(plan), **change})
        assert words in refused["error"]
        await client.ask("hand-back")
        assert ward.quarantined == bodies


async def test_stopping_between_two_messages_and_going_on(ward, console, autojump_clock) -> None:
    """CLI-01: a stop ends the run between two messages; the same plan goes on with the exact remainder."""
    ward.fill(*(ward.capture() for _ in range(10)))
    async with console(allow_redrive=True) as client:
        plan = await dry_run(client)
        await client.ask("redrive", **word(plan, pace="1/s"))
        await trio.sleep(3.5)
        for name in ("read", "plan", "redrive"):
            asked = word(plan) if name == "redrive" else {}
            assert "a redrive is running" in (await client.ask(name, status=409, **asked))["error"]
        state = await client.ask("stop")
        assert state["run"]["stopping"]
        run = await until_over(client)
        assert "asked to stop: olga@host on the console" in run["account"]["stopped"]
        assert run["account"]["redriven"] == 4
        assert len(ward.quarantined) == 6
        await client.ask("redrive", **word(plan, pace="1000/s"))
        run = await until_over(client)
        assert (run["account"]["redriven"], run["account"]["stopped"]) == (10, None)
        assert ward.quarantined == ()
        assert len(ward.broker.queue(ward.queue).bodies) == 10


async def test_progress_tells_what_is_left(ward, console, autojump_clock) -> None:
    """While a run is under way its state tells how many are left, and how long they will take."""
    ward.fill(*(ward.capture() for _ in range(20)))
    async with console(allow_redrive=True) as client:
        plan = await dry_run(client)
        await client.ask("redrive", **word(plan, pace="1/s"))
        await trio.sleep(10.5)
        run = (await client.look("state"))["run"]
        assert (run["total"], run["left"]) == (20, 9)
        assert 7 <= run["seconds_left"] <= 10
        await until_over(client)


async def test_an_unroutable_message_stops_the_run_and_stays(ward, console, autojump_clock) -> None:
    """A returned publish ends the run, or only beyond the allowed share; nothing returned is acked."""
    bodies = ward.fill(*(ward.capture() for _ in range(3)))
    ward.broker.unbind("craig.dlx", ward.queue, "dlq.#")
    async with console(allow_redrive=True) as client:
        plan = await dry_run(client)
        await client.ask("redrive", **word(plan))
        run = await until_over(client)
        assert "unroutable" in run["account"]["stopped"]
        assert (run["account"]["returned"], run["account"]["remaining"]) == (1, 2)
        await client.ask("redrive", **word(plan, stop_if_returned=100))
        assert (await until_over(client))["account"]["returned"] == 3
        assert ward.quarantined == bodies


async def test_a_queue_in_use_is_a_failure_of_the_run(ward, console, autojump_clock) -> None:
    """A redrive that can't lease the queue says so, does nothing, and can be begun again."""
    ward.fill(ward.capture())
    async with console(allow_redrive=True) as client:
        plan = await dry_run(client)
        await client.ask("hand-back")
        async with lease_queue(ward.broker, ward.quarantine):
            await client.ask("redrive", **word(plan))
            run = await until_over(client)
        assert "is in use" in run["failure"]
        assert run["account"]["remaining"] == 1
        await client.ask("redrive", **word(plan))
        assert (await until_over(client))["account"]["redriven"] == 1


async def test_what_cannot_be_written_is_not_done(ward, console, monkeypatch, autojump_clock) -> None:
    """On a full disk nothing is redriven: the record of the act comes before the act."""
    bodies = ward.fill(ward.capture())

    def full(*_):
        raise OSError(28, "No space left on device")

    async with console(allow_redrive=True) as client:
        plan = await dry_run(client)
        monkeypatch.setattr("craig_mq.operator.append_log.os.fsync", full)
        await client.ask("redrive", **word(plan))
        run = await until_over(client)
        assert "No space left on device" in run["failure"]
        assert ward.quarantined == bodies


async def test_acts_are_in_the_record_and_the_ledger(ward, console, tmp_path) -> None:
    """Who, when, why, by which plan and with what outcome stands in the folder's record and in the ledger."""
    url = f"sqlite:///{tmp_path}/audit.db"
    ward.fill(ward.capture(), ward.capture())
    async with console(allow_redrive=True, audit_url=url) as client:
        plan = await dry_run(client)
        await client.ask("redrive", **word(plan, pace="1000/s"))
        run = await until_over(client)
        assert run["account"]["redriven"] == 2
        history = await client.look("history")
    async with open_store(url) as store:
        rows = await store.run(lambda database: read_actions(database, limit=10))
    assert [(row.phase, row.action, row.reason) for row in rows] == [
        ("ended", "redrive", "fixed in 4.2"),
        ("begun", "redrive", "fixed in 4.2"),
    ]
    assert {row.plan_sha256 for row in rows} == {plan["sha256"]}
    lines = [json.loads(line) for line in (tmp_path / "console" / "actions.jsonl").read_text().splitlines()]
    assert [line["phase"] for line in lines] == ["begun", "ended"]
    assert lines[1]["outcome"]["redriven"] == 2
    (act,) = history["acts"]
    assert (act["who"], act["plan"]) == ("olga@host", plan["sha256"])
    assert "redriven 2" in act["outcome"]


async def test_a_capture_redriven_before_is_a_copy(ward, console, tmp_path) -> None:
    """With a ledger, what one plan redrove is a *copy* to the next, and is not selected."""
    url = f"sqlite:///{tmp_path}/audit.db"
    (body,) = ward.fill(ward.capture())
    async with console(allow_redrive=True, audit_url=url) as client:
        plan = await dry_run(client)
        await client.ask("redrive", **word(plan, pace="1000/s"))
        await until_over(client)
        ward.fill(body)
        again = await dry_run(client)
        assert (again["by_verdict"], again["selected"]) == ({"copy": 1}, 0)


async def test_closing_in_the_middle_ends_the_act_as_interrupted(ward, console, tmp_path) -> None:
    """A console torn down during a redrive ends its act as interrupted, and loses nothing."""
    ward.fill(*(ward.capture() for _ in range(5)))
    async with console(allow_redrive=True) as client:
        plan = await dry_run(client)
        await client.ask("redrive", **word(plan, pace="1/s"))
        await trio.sleep(0.1)
    lines = [json.loads(line) for line in (tmp_path / "console" / "actions.jsonl").read_text().splitlines()]
    assert lines[-1]["outcome"] == {"interrupted": True}
    assert len(ward.quarantined) + len(ward.broker.queue(ward.queue).bodies) == 5


async def test_a_folder_serves_one_console(ward, console, autojump_clock) -> None:
    """A second console on the same folder is refused, and an edited record is named."""
    async with console():
        with pytest.raises(Exception, match=r"in use by another process: .* choose another --folder"):
            async with console():
                pass


async def test_an_edited_record_is_refused(ward, console, tmp_path, autojump_clock) -> None:
    """A record that is no longer what was written keeps the console from starting."""
    folder = tmp_path / "console"
    folder.mkdir()
    (folder / "actions.jsonl").write_bytes(msgspec.json.encode({"act": 1}) + b"\n")
    with pytest.raises(Exception, match="was edited"):
        async with console():
            pass
