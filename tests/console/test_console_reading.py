"""Looking at quarantine through the console: leased, judged, filtered, given back."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
import trio

from craig_mq.audit import open_store
from craig_mq.audit.row import AuditRow
from craig_mq.operator.lease import lease_queue
from craig_mq.testing import MemoryBroker
from craig_mq.testing.captures import original


async def record_row(url: str, number: int) -> None:
    """Commit the effect of event ``number``, as the recorder would."""
    body = original(number)
    async with open_store(url) as store:
        await store.record(
            AuditRow(
                token=f"occ1:inbox:{number:032x}",
                envelope_id=str(UUID(int=number)),
                source_service="orders",
                event_type="order.placed",
                occurred_at=datetime(2026, 1, 2, tzinfo=UTC),
                queue="security.dlq",
                reason=None,
                park_count=0,
                body=body,
            )
        )


async def test_reading_holds_and_gives_back_in_place(ward, console, autojump_clock) -> None:
    """A reading holds everything until it is handed back, then every message is in its place again."""
    bodies = ward.fill(ward.capture(), ward.malformed(), b"junk")
    async with console() as client:
        await client.open()
        state = await client.ask("read")
        assert (state["reading"]["seen"], state["reading"]["complete"]) == (3, True)
        assert 530 < state["reading"]["seconds_left"] <= 540
        assert ward.quarantined == ()
        state = await client.ask("hand-back")
        assert state["reading"]["ended"] == "you handed it back"
        assert ward.quarantined == bodies


async def test_a_lease_ends_by_itself_before_ten_minutes(ward, console, autojump_clock) -> None:
    """A page that goes on looking loses its lease after nine minutes; everything is in its place again."""
    bodies = ward.fill(ward.capture(), ward.capture())
    async with console() as client:
        await client.open()
        await client.ask("read")
        began = trio.current_time()
        while (await client.look("state"))["reading"]["ended"] is None:
            await trio.sleep(5)
        assert 530 <= trio.current_time() - began <= 546
        assert (await client.look("state"))["reading"]["ended"] == "its time was up"
        assert ward.quarantined == bodies


async def test_a_page_that_went_away_holds_nothing(ward, console, autojump_clock) -> None:
    """A minute after the last request everything is handed back, since a lease shuts other operators out."""
    bodies = ward.fill(ward.capture())
    async with console() as client:
        await client.open()
        await client.ask("read")
        await trio.sleep(55)
        assert ward.quarantined == ()
        await trio.sleep(10)
        assert ward.quarantined == bodies
        assert (await client.look("state"))["reading"]["ended"] == "no page was looking any more"


async def test_a_closing_console_hands_back(ward, console, autojump_clock) -> None:
    """A console that ends while it holds quarantine gives everything back in its place."""
    bodies = ward.fill(ward.capture(), ward.capture())
    async with console() as client:
        await client.open()
        await client.ask("read")
        assert ward.quarantined == ()
    assert ward.quarantined == bodies


async def test_one_lease_per_queue(ward, console, autojump_clock) -> None:
    """While another operator holds the queue, reading is a conflict that names it, and touches nothing."""
    ward.fill(ward.capture())
    async with console() as client:
        await client.open()
        async with lease_queue(ward.broker, ward.quarantine):
            refused = await client.ask("read", status=409)
        assert "security.dlq.quarantine is in use" in refused["error"]
        assert (await client.ask("read"))["reading"]["seen"] == 1


async def test_a_second_reading_replaces_the_first(ward, console, autojump_clock) -> None:
    """Reading again hands back, leases anew, and sees what came meanwhile."""
    first = ward.fill(ward.capture())
    async with console() as client:
        await client.open()
        await client.ask("read")
        second = ward.fill(ward.capture())
        state = await client.ask("read")
        assert (state["reading"]["number"], state["reading"]["seen"]) == (2, 2)
        await client.ask("hand-back")
        assert ward.quarantined == first + second


async def test_a_lost_connection_ends_the_reading_alone(ward, console, autojump_clock) -> None:
    """A connection that the broker closes ends the reading, which says so; the next one works."""
    bodies = ward.fill(ward.capture())
    async with console() as client:
        await client.open()
        await client.ask("read")
        ward.broker.close_connection("craig_mq operator: security.dlq.quarantine")
        await trio.sleep(1)
        assert "broker" in (await client.look("state"))["reading"]["ended"]
        assert ward.quarantined == bodies
        assert (await client.ask("read"))["reading"]["seen"] == 1


async def test_a_missing_queue_and_an_unread_one_are_named(ward, console, autojump_clock) -> None:
    """Asking for rows before reading, or for a queue that is gone, is answered in one line."""
    async with console() as client:
        await client.open()
        assert (await client.ask("rows", status=409))["error"] == "read quarantine first"
        ward.broker.delete_queue(ward.quarantine)
        assert "there is no queue" in (await client.ask("read", status=404))["error"]


async def test_rows_groups_and_facets(ward, console, autojump_clock) -> None:
    """Rows come in pages with the groups and facets of everything selected; filters need no new reading."""
    ward.fill(*(ward.capture(error=f"row {n} is bad") for n in range(3)), ward.capture(error="late"), b"junk")
    async with console() as client:
        await client.open()
        await client.ask("read")
        page = await client.ask("rows", count=2)
        assert (page["selected"], [row["position"] for row in page["rows"]]) == (5, [0, 1])
        assert [(group["reason"], group["rows"]) for group in page["groups"]] == [
            ("permanent", 3),
            ("no_capture", 1),
            ("permanent", 1),
        ]
        assert page["facets"]["reason"] == [["permanent", 4], ["no_capture", 1]]
        last = await client.ask("rows", offset=4, count=2)
        assert [row["reason"] for row in last["rows"]] == ["no_capture"]
        found = await client.ask("rows", where=["error~bad", "age>30m"])
        assert found["selected"] == 3
        grouped = await client.ask("rows", group=page["groups"][0]["name"], count=1)
        assert (grouped["selected"], len(grouped["groups"])) == (3, 3)
        refused = await client.ask("rows", where=["colour=red"], status=422)
        assert "there is no field 'colour'" in refused["error"]


async def test_verdicts_and_effects_beside_them(ward, console, tmp_path) -> None:
    """Each row has the verdict of its redrive, and what the ledger holds of its occurrence."""
    url = f"sqlite:///{tmp_path}/audit.db"
    await record_row(url, 1)
    ward.fill(ward.capture(), ward.capture(), ward.capture(token=False), ward.malformed())
    async with console(audit_url=url) as client:
        await client.open()
        await client.ask("read")
        rows = (await client.ask("rows"))["rows"]
        assert [(row["verdict"], row["effect"]) for row in rows] == [
            ("absorbed", "recorded"),
            ("runs again", "none recorded"),
            ("may duplicate", "no token to look up"),
            ("not redrivable", "no token to look up"),
        ]
        effects = await client.look("effects")
        assert [(row["token"], row["in_quarantine"]) for row in effects["rows"]] == [(rows[0]["token"], True)]
        detail = await client.ask("message", key=rows[0]["key"])
        assert len(detail["effects"]["rows"]) == 1
        assert detail["fields"]["error_text"] == "column too long"


async def test_a_ledger_that_cannot_be_read_is_no_verdict(ward, console, tmp_path) -> None:
    """Where a ledger is named and can't be read, reading fails in one line instead of guessing."""
    (tmp_path / "audit.db").write_bytes(b"no database" * 100)
    ward.fill(ward.capture())
    async with console(audit_url=f"sqlite:///{tmp_path}/audit.db") as client:
        await client.open()
        assert "ledger can't be used" in (await client.ask("read", status=503))["error"]
        assert "ledger can't be used" in (await client.look("history", status=503))["error"]


async def test_a_body_is_shown_only_when_asked_and_written_down(ward, console, autojump_clock) -> None:
    """Only the answer that reveals a body holds it, cut at 64 KiB, and each reveal is in the history."""
    secret = original(1)[:-1] + b',"secret":"' + b"x" * 70_000 + b'"}'
    (body,) = ward.fill(ward.capture(body=secret))
    async with console() as client:
        await client.open()
        await client.ask("read")
        page = await client.ask("rows")
        key = page["rows"][0]["key"]
        detail = await client.ask("message", key=key)
        assert "xxx" not in f"{page}{detail}{await client.look('state')}"
        shown = await client.ask("body", key=key)
        assert (shown["bytes"], shown["cut"], len(shown["text"])) == (len(body), True, 65_536)
        assert ward.quarantined == (body,)
        acts = (await client.look("history"))["acts"]
        assert [(act["action"], act["who"], act["outcome"]) for act in acts] == [
            ("reveal", "olga@host", "shown yes")
        ]
        assert (await client.look("state"))["reading"]["ended"] == "a body was asked for"


async def test_what_cannot_be_written_down_is_not_shown(ward, console, monkeypatch, autojump_clock) -> None:
    """On a full disk no body is revealed: the record comes first."""
    ward.fill(ward.capture())

    def full(*_):
        raise OSError(28, "No space left on device")

    async with console() as client:
        await client.open()
        await client.ask("read")
        key = (await client.ask("rows"))["rows"][0]["key"]
        monkeypatch.setattr("craig_mq.operator.append_log.os.fsync", full)
        refused = await client.ask("body", key=key, status=507)
        assert "No space left" in refused["error"]


async def test_a_quorum_queue_is_not_read_by_the_way(ward, console, autojump_clock) -> None:
    """A queue whose looks count towards deletion is refused until that is accepted."""
    ward.broker = MemoryBroker()
    ward.broker.declare_queue(ward.quarantine, {"x-queue-type": "quorum"})
    async with console() as client:
        await client.open()
        assert "delivery limit" in (await client.ask("read", status=409))["error"]
    async with console(accept_delivery_count=True) as client:
        await client.open()
        assert (await client.ask("read"))["reading"]["seen"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {"where": "reason=permanent"},
        {"where": ["x"] * 21},
        {"count": 201},
        {"offset": -1},
        {"where": ["x" * 501]},
        {"other": 1},
    ],
)
async def test_requests_are_bounded(ward, console, autojump_clock, body) -> None:
    """A request that is mistyped, unknown or beyond its bounds is refused before it is looked at."""
    async with console() as client:
        await client.open()
        assert "the request is not understood" in (await client.ask("rows", status=422, **body))["error"]
