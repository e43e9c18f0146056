"""``craig-mq audit`` from the outside: what it prints, what it refuses, how it exits."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import trio
from click.testing import CliRunner

from craig_mq.audit import open_store
from craig_mq.cli.audit import audit_group


@pytest.fixture
def ledger(tmp_path, make_row):
    """The URL of an SQLite ledger with four rows: one divergent, one tokenless, one not UTF-8."""
    url = f"sqlite:///{tmp_path}/audit.db"

    async def fill():
        async with open_store(url) as store:
            await store.record(make_row(1))
            await store.record(make_row(1, body=b"other"))
            await store.record(make_row(2, token=None, source_service="mail", reason="expired"))
            await store.record(make_row(3, body=b"\xff\x00", event_type="[bold]odd[/bold]"))

    trio.run(fill)
    return url


@pytest.fixture
def audit(ledger):
    """Run ``craig-mq audit`` on the ledger; the result has exit_code, stdout and stderr."""

    def run(*arguments, url=ledger, answer=None):
        environment = {"COLUMNS": "200"}
        result = CliRunner().invoke(audit_group, ["--audit", url, *arguments], answer, environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_list_filters_and_hides_bodies(audit):
    """``list --json`` gives the rows that match, newest first, without bodies unless --body is said."""
    rows = json.loads(audit("list", "--json").stdout)
    assert [row["envelope_id"][-1] for row in rows] == ["3", "2", "1", "1"]
    assert not any("body" in row or "body_b64" in row for row in rows)
    for arguments, count in (
        (("--divergent",), 1),
        (("--not-divergent",), 3),
        (("--service", "mail"), 1),
        (("--event-type", "invoice.paid"), 3),
        (("--reason", "expired"), 1),
        (("--token", f"occ1:broker:{1:032x}"), 1),
        (("--queue", "other.dlq"), 0),
        (("--since", "1h"), 4),
        (("--until", "1h"), 0),
        (("--archived",), 0),
        (("--limit", "2"), 2),
        (("--before", rows[1]["id"]), 2),
    ):
        assert len(json.loads(audit("list", "--json", *arguments).stdout)) == count, arguments


def test_bodies_come_only_when_asked_for(audit):
    """--body shows text as text and anything else as base64."""
    rows = json.loads(audit("list", "--json", "--body").stdout)
    assert rows[0]["body_b64"] == "/wA="
    assert rows[3]["body"] == '{"number":1}'
    assert "number" not in audit("list").stdout
    assert "number" in audit("list", "--body").stdout


def test_the_table_shows_data_verbatim(audit):
    """Texts of a message are never read as terminal markup."""
    assert "[bold]odd[/bold]" in audit("list").stdout


def test_show_takes_an_id_or_a_token(audit):
    """``show`` finds a row by either, hot or archived, and says when there is none."""
    token = f"occ1:broker:{1:032x}"
    row = json.loads(audit("show", token, "--json").stdout)
    assert json.loads(audit("show", row["id"], "--json").stdout) == row
    assert audit("prune", "--older-than", "0m").exit_code == 0
    assert json.loads(audit("show", token, "--json").stdout)["archived_at"] is not None
    missing = audit("show", "occ1:broker:" + "f" * 32)
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert len(missing.stderr.splitlines()) == 1


def test_stats_counts_and_prints_anchors(audit):
    """``stats`` accounts for every row recorded and prints the last hash of each chain."""
    counted = json.loads(audit("stats", "--json").stdout)
    assert (counted["hot"], counted["archived"], counted["purged"], counted["recorded"]) == (4, 0, 0, 4)
    assert (counted["tokenless"], counted["divergent"], counted["whole"]) == (2, 1, True)
    [anchor] = counted["anchors"].values()
    assert anchor in audit("stats").stdout


def test_the_life_of_a_row_from_hot_to_purged_and_back(audit, tmp_path):
    """prune, export, purge, verify and import together keep every row accounted for."""
    folder = str(tmp_path / "export")
    anchor = next(iter(json.loads(audit("stats", "--json").stdout)["anchors"].values()))
    assert audit("prune", "--older-than", "0m").stdout == "archived 4 rows\n"
    assert json.loads(audit("export", folder, "--json").stdout)["rows"] == 4
    assert json.loads(audit("purge", "--yes", "--archived-before", "0m", "--json").stdout) == {"purged": 4}
    assert audit("verify", "--anchor", anchor).stdout.startswith("intact: 0 rows checked, 4 purged")
    assert audit("verify", "--export", folder, "--anchor", anchor).stdout.startswith("intact: 4 rows checked")
    assert json.loads(audit("import", folder, "--json").stdout) == {"imported": 4, "present": 0}
    assert json.loads(audit("verify", "--json").stdout)["rows"] == 4


def test_purge_asks_first(audit):
    """Without --yes ``purge`` asks, and no answer means no."""
    audit("prune", "--older-than", "0m")
    refused = audit("purge", "--archived-before", "0m")
    assert refused.exit_code == 1
    assert json.loads(audit("stats", "--json").stdout)["archived"] == 4


def test_verify_exits_1_when_something_was_changed(audit, ledger):
    """A changed ledger is told in one line a finding, and by the exit code."""

    async def tamper():
        async with open_store(ledger) as store:
            await store.run(
                lambda database: database.execute("UPDATE occurrence SET queue = 'x' WHERE seq = 2")
            )

    trio.run(tamper)
    result = audit("verify")
    assert result.exit_code == 1
    assert "place 2" in result.stdout
    missing = audit("verify", "--anchor", "ab" * 32, "--json")
    assert json.loads(missing.stdout)["missing_anchors"] == ["ab" * 32]


@pytest.mark.parametrize(
    ("url", "arguments", "code", "words"),
    [
        (None, ("list", "--since", "yesterday"), 2, "not a time"),
        (None, ("prune", "--older-than", "99999w9"), 2, "not a time"),
        (None, ("list", "--limit", "0"), 2, "--limit"),
        (None, ("list", "--before", "7"), 2, "--before"),
        (None, ("verify", "--anchor", "12"), 2, "64 hex digits"),
        (None, ("verify", "--export", "/nonexistent"), 1, "manifest.json"),
        ("sqlite:///nowhere/audit.db", ("stats",), 2, "no ledger"),
        ("sqlite:///", ("stats",), 2, "no ledger"),
        ("mysql://root@localhost/x", ("stats",), 2, "unknown kind of store"),
        ("hunter2", ("stats",), 2, "unknown kind of store"),
        ("postgresql://someone:hunter2@127.0.0.1:1/x", ("stats",), 1, "host, port, user and database"),
        ("postgresql://someone:hunter2%zz@h/x", ("stats",), 2, "percent-encoded"),
        ("postgresql://someone:1@hunter2@h/x", ("stats",), 2, "percent-encoded"),
        ("postgresql://someone:hunter2/1@h/x", ("stats",), 2, "percent-encoded"),
    ],
)
def test_bad_input_is_one_clear_line(audit, ledger, url, arguments, code, words):
    """What the caller got wrong exits 2, what the world refused exits 1; no traceback, no password."""
    result = audit(*arguments, url=url or ledger)
    assert result.exit_code == code
    [line] = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    assert words in line
    assert "hunter2" not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "edit",
    [
        "PRAGMA user_version = -3",
        "UPDATE occurrence SET id = 'nobody' WHERE seq = 2",
        "UPDATE occurrence SET chain = 7 WHERE seq = 2",
        f"UPDATE occurrence SET recorded_at = {2**62} WHERE seq = 2",
    ],
)
@pytest.mark.parametrize("command", [("list",), ("verify",), ("export", "out")])
def test_a_value_of_another_kind_is_one_clear_line(audit, ledger, tmp_path, monkeypatch, edit, command):
    """A column or version changed into what was never written there ends a command with one line and 1."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(ledger.removeprefix("sqlite:///"), isolation_level=None)) as database:
        database.execute(edit)
    result = audit(*command)
    assert result.exit_code == 1
    assert [line[:6] for line in result.stderr.splitlines()] == ["Error:"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"part-00001.jsonl"', r'"a\u0000"'),
        ('"chain_after": "', '"chain_after": "zz'),
        ('"craig_mq.audit/1"', '"craig_mq.audit/2"'),
        ("{", "["),
    ],
)
def test_an_edited_manifest_is_refused(audit, tmp_path, old, new):
    """An export whose manifest names what no export has is refused in one line by verify and by import."""
    folder = tmp_path / "export"
    assert audit("export", str(folder)).exit_code == 0
    manifest = folder / "manifest.json"
    text = manifest.read_text()
    assert old in text
    manifest.write_text(text.replace(old, new))
    for command in (("verify", "--export", str(folder)), ("import", str(folder))):
        result = audit(*command)
        assert (result.exit_code, result.stderr[:6]) == (1, "Error:")


def test_a_purge_asks_on_stderr(audit):
    """Without --yes purge asks on stderr, so that --json leaves one document on stdout."""
    result = audit("purge", "--archived-before", "1d", "--json", answer="y\n")
    assert json.loads(result.stdout) == {"purged": 0}
    assert "gone for good" in result.stderr
    refused = audit("purge", "--archived-before", "1d", "--json", answer="n\n")
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_a_time_without_an_offset_is_utc(audit):
    """A naive time is read as UTC, so a script means the same on every host."""
    later = (datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=None).isoformat()
    assert len(json.loads(audit("list", "--json", "--until", later).stdout)) == 4
    assert json.loads(audit("list", "--json", "--since", later).stdout) == []


def test_a_file_that_is_no_database_is_told(audit, tmp_path):
    """A file that SQLite can't read exits 1 with one line."""
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is not a database, but it is long enough to look at" * 40)
    result = audit("stats", url=f"sqlite:///{broken}")
    assert result.exit_code == 1
    assert "not a database" in result.stderr
