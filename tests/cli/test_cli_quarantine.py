"""``craig-mq quarantine`` as an operator types it."""

from pathlib import Path

import pytest

from craig_mq.core.capture_format import QuarantineReason


def shorten(body: bytes) -> bytes:
    """A redaction for the tests: the first byte only."""
    return body[:1]


def test_list_shows_fields_and_never_bodies(bench) -> None:
    """The list tells age, reason, error and key of each message, and its JSON holds the same fields."""
    bodies = bench.fill(bench.capture(error="first\nsecond"), bench.capture(body=b"\xff"), b"junk")
    found = bench.json("quarantine", "list")
    assert (found["depth"], found["seen"], found["complete"], found["selected"]) == (3, 3, True, 3)
    assert [row["reason"] for row in found["rows"]] == ["permanent", "permanent", "no_capture"]
    assert "body" not in found["rows"][0]
    text = bench.run("quarantine", "list", "--where", "error~first").output
    assert "first" in text
    assert "second" not in text
    assert "1 selected of 3 seen" in text
    assert bench.bodies() == bodies


def test_stats_group_like_an_exception_list(bench) -> None:
    """Stats count by reason and error, numbers in the texts put aside."""
    bench.fill(*(bench.capture(error=f"row {n} is bad") for n in range(4)), b"junk")
    found = bench.json("quarantine", "stats")
    assert [(group["reason"], group["rows"]) for group in found["groups"]] == [
        ("permanent", 4),
        ("no_capture", 1),
    ]
    assert found["by_reason"] == {"permanent": 4, "no_capture": 1}
    assert "row 0 is bad" in bench.run("quarantine", "stats").output


def test_show_renders_one_message_and_its_body_only_when_asked(bench) -> None:
    """Show takes a key; the body comes with --body, through the redaction where one is named."""
    [body] = bench.fill(bench.capture())
    key = bench.json("quarantine", "list")["rows"][0]["key"]
    assert "body" not in bench.json("quarantine", "show", key)
    assert bench.json("quarantine", "show", key[:18], "--body")["body"] == body.decode()
    redacted = bench.json("quarantine", "show", key, "--body", "--redact", f"{__name__}:shorten")
    assert redacted["body"] == "{"
    assert "column too long" in bench.run("quarantine", "show", key).output
    assert "has the key nothing" in bench.run("quarantine", "show", "nothing", exit_code=2).output
    refused = bench.run("quarantine", "show", key, "--redact", "no.such:thing", exit_code=2).output
    assert "MODULE:FUNCTION" in refused


def test_a_message_cannot_give_the_terminal_orders(bench) -> None:
    """Escape sequences and markup inside a message are printed as text."""
    bench.fill(bench.capture(error="\x1b[2J[bold]boo[/bold]"))
    for command in (("list",), ("stats",)):
        output = bench.run("quarantine", *command).output
        assert "\x1b[2J" not in output


def test_plan_then_redrive_exactly_it(bench, tmp_path: Path) -> None:
    """A plan is written without changing anything, and redriving it prints an account that adds up."""
    bodies = bench.fill(
        *(bench.capture(error="ab"[n % 2]) for n in range(6)), bench.capture(body=b"\xff", error="a")
    )
    out = tmp_path / "plan.json"
    plan = bench.json("quarantine", "plan", "--where", "error=a", "--out", out, "--hot-window", "9999d")
    assert (plan["messages"], plan["selected"], plan["complete"]) == (4, 3, True)
    assert plan["by_verdict"] == {"runs again": 3, "not redrivable": 1}
    assert plan["routes"] == {"dlq.svc.a": 3}
    assert bench.bodies() == bodies
    told = bench.run("quarantine", "redrive", "--plan", out)
    assert "nothing was done: say --yes 3" in told.output
    wrong = bench.run("quarantine", "redrive", "--plan", out, "--yes", 2, "--reason", "x", exit_code=2)
    assert "selects 3 messages, not 2" in wrong.output
    assert "say why" in bench.run("quarantine", "redrive", "--plan", out, "--yes", 3, exit_code=2).output
    assert bench.bodies() == bodies
    done = bench.run(
        *("quarantine", "redrive", "--plan", out, "--yes", 3, "--reason", "fixed", "--rate", "1000/s")
    )
    assert "plan 3 = redriven 3 + returned 0 + skipped 0 + remaining 0" in done.output
    assert bench.bodies() == (*bodies[1:6:2], bodies[6])
    journal = (tmp_path / "plan.json.journal").read_text()
    assert '"reason":"fixed"' in journal
    assert journal.count('"step":"confirmed"') == 3


def test_old_messages_need_a_tick(bench, tmp_path: Path) -> None:
    """What may duplicate is planned but not selected unless --allow-duplicates says so."""
    bench.fill(bench.capture())
    for arguments, selected in (((), 0), (("--allow-duplicates",), 1)):
        out = tmp_path / f"plan{selected}"
        found = bench.json("quarantine", "plan", "--out", out, "--hot-window", "1h", *arguments)
        assert (found["by_verdict"], found["selected"]) == ({"may duplicate": 1}, selected)


def test_unroutable_redrives_exit_non_zero(bench, tmp_path: Path) -> None:
    """RET-04 (b): three returned messages are three failures, exit code 1, and three stay."""
    bench.fill(*(bench.capture() for _ in range(3)))
    bench.broker.unbind("craig.dlx", bench.queue, "dlq.#")
    out = tmp_path / "plan.json"
    bench.json("quarantine", "plan", "--out", out, "--allow-duplicates")
    arguments = ("--plan", out, "--yes", 3, "--reason", "x", "--stop-if-returned", "100%", "--rate", "1000")
    found = bench.json("quarantine", "redrive", *arguments, exit_code=1)
    assert (found["returned"], found["redriven"]) == (3, 0)
    assert len(bench.bodies()) == 3


def test_a_capped_message_whose_count_is_kept_will_return(bench, tmp_path: Path) -> None:
    """With --keep-park-count a capped capture is planned as *will return* and needs its own tick."""
    bench.fill(bench.capture(reason=QuarantineReason.PARK_CAP_EXHAUSTED))
    keep = ("quarantine", "plan", "--keep-park-count")
    assert bench.json(*keep, "--out", tmp_path / "a")["selected"] == 0
    assert bench.json(*keep, "--allow-returns", "--out", tmp_path / "b")["selected"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "--where", "colour=red"), "there is no field 'colour'"),
        (("redrive", "--plan", "missing.json"), "cannot read missing.json"),
        (("plan", "--out", "/nowhere/plan.json"), "cannot write /nowhere/plan.json"),
        (("plan", "--out", "x", "--hot-window", "soon"), "no duration: write 90s"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(bench, arguments, words) -> None:
    """What the operator got wrong is told in one line, with exit code 2."""
    result = bench.run("quarantine", *arguments, exit_code=2)
    assert words in result.output
    assert "Traceback" not in result.output


def test_a_missing_queue_is_named(bench) -> None:
    """A queue that does not exist is named with exit code 1."""
    bench.broker.delete_queue(bench.quarantine)
    assert "there is no queue" in bench.run("quarantine", "list", exit_code=1).output


def test_drain_verify_and_import(bench, tmp_path: Path) -> None:
    """Malformed messages drain into a folder, which verifies, and imports back byte for byte."""
    bodies = bench.fill(
        bench.capture(body=b"\xff", reason=QuarantineReason.MALFORMED), bench.capture(), b"junk"
    )
    folder = tmp_path / "drained"
    assert "say which" in bench.run("quarantine", "drain", "--to", folder, exit_code=2).output
    where = ("--where", "reason=malformed")
    found = bench.json("quarantine", "drain", *where, "--to", folder)
    assert (found["drained"], found["in_folder"], found["stopped"]) == (1, 1, None)
    assert bench.bodies() == bodies[1:]
    assert bench.run("quarantine", "verify", folder).output == "intact: 1 messages\n"
    assert "imported 1" in bench.run("quarantine", "import", folder).output
    assert bench.bodies() == (*bodies[1:], bodies[0])
    for command in ("verify", "import"):
        absent = bench.run("quarantine", command, tmp_path / "absent", exit_code=1).output
        assert absent == f"Error: there is no folder {tmp_path / 'absent'}\n"
    (folder / "drain.jsonl").write_text("")
    assert "was changed" in bench.run("quarantine", "verify", folder, exit_code=1).output


def test_a_plan_that_leaves_duplicates_out_says_how_to_select_them(bench, tmp_path: Path) -> None:
    """Messages that may duplicate and are not selected are counted, with the option that selects them."""
    bench.fill(bench.capture(), bench.capture())
    told = bench.run("quarantine", "plan", "--out", tmp_path / "careful")
    assert told.stderr == "not selected: 2 that may duplicate; plan --allow-duplicates selects them\n"
    ticked = bench.run("quarantine", "plan", "--out", tmp_path / "ticked", "--allow-duplicates")
    assert ticked.stderr == ""
    assert bench.run("quarantine", "plan", "--out", tmp_path / "document", "--json").stderr == ""


def test_every_act_is_in_the_audit_ledger(bench, ledger, tmp_path: Path) -> None:
    """With --audit the ledger holds who did what, when, why, by which plan, with what outcome."""
    bench.fill(
        *(bench.capture() for _ in range(3)), bench.capture(body=b"\xff", reason=QuarantineReason.MALFORMED)
    )
    out = tmp_path / "plan.json"
    plan = bench.json("quarantine", "plan", "--out", out, "--audit", ledger)
    assert plan["by_verdict"] == {"runs again": 3, "not redrivable": 1}
    fixed = ("--reason", "fixed in 4.2", "--audit", ledger)
    bench.run("quarantine", "redrive", "--plan", out, "--yes", 3, "--rate", "1000", *fixed)
    drained = ("--where", "reason=malformed", "--to", tmp_path / "drained")
    bench.run("quarantine", "drain", *drained, *fixed)
    rows = bench.json("audit", "--audit", ledger, "actions")
    assert [(row["action"], row["phase"]) for row in rows] == [
        ("drain", "ended"),
        ("drain", "begun"),
        ("redrive", "ended"),
        ("redrive", "begun"),
    ]
    assert {(row["queue"], row["reason"]) for row in rows} == {(bench.quarantine, "fixed in 4.2")}
    assert (rows[2]["plan_sha256"], rows[2]["outcome"]["redriven"]) == (plan["sha256"], 3)
    assert rows[2]["act"] == rows[3]["act"]
    assert "@" in rows[0]["who"]
    assert "fixed in 4.2" in bench.run("audit", "--audit", ledger, "actions").output


def test_a_capture_redriven_by_another_plan_is_a_copy(bench, ledger, tmp_path: Path) -> None:
    """What the ledger knows as redriven is planned as a copy, and skipped by an older plan."""
    [body] = bench.fill(bench.capture())
    for name in ("first", "second"):
        arguments = ("--allow-duplicates", "--out", tmp_path / name, "--audit", ledger)
        assert bench.json("quarantine", "plan", *arguments)["selected"] == 1
    run = ("--yes", 1, "--reason", "x", "--audit", ledger)
    bench.run("quarantine", "redrive", "--plan", tmp_path / "first", *run)
    bench.fill(body)
    skipped = bench.json("quarantine", "redrive", "--plan", tmp_path / "second", *run, exit_code=1)
    assert skipped["skipped"] == {"redriven before by another plan": 1}
    again = bench.json("quarantine", "plan", "--out", tmp_path / "third", "--audit", ledger)
    assert again["by_verdict"] == {"copy": 1}
    assert bench.bodies() == (body,)


def test_without_its_ledger_nothing_is_done(bench, tmp_path: Path) -> None:
    """When the ledger named by --audit cannot be opened, no message moves."""
    bodies = bench.fill(bench.capture())
    out = tmp_path / "plan.json"
    bench.run("quarantine", "plan", "--allow-duplicates", "--out", out)
    (tmp_path / "audit.db").write_text("no database, " * 100, encoding="utf-8")
    arguments = ("--yes", 1, "--reason", "x", "--audit", f"sqlite:///{tmp_path / 'audit.db'}")
    result = bench.run("quarantine", "redrive", "--plan", out, *arguments, exit_code=1)
    assert "ledger" in result.output
    assert bench.bodies() == bodies


@pytest.mark.parametrize(
    "command",
    [
        ("quarantine", "plan", "--allow-duplicates", "--out", "other.json"),
        ("quarantine", "redrive", "--plan", "plan.json", "--yes", "1", "--reason", "x"),
        ("quarantine", "drain", "--where", "reason=permanent", "--to", "folder"),
        ("parking", "release", "--plan", "release.json"),
        ("console",),
    ],
)
def test_a_ledger_that_does_not_stand_is_refused_and_not_made(bench, tmp_path, monkeypatch, command) -> None:
    """A mistyped ledger is refused in ``audit``'s words before anything is judged, written or moved."""
    monkeypatch.chdir(tmp_path)
    bodies = bench.fill(bench.capture())
    bench.run("quarantine", "plan", "--allow-duplicates", "--out", "plan.json")
    refused = bench.run(*command, "--audit", "sqlite:///typo.db", exit_code=2).output
    assert refused == bench.run("audit", "--audit", "sqlite:///typo.db", "stats", exit_code=2).output
    assert "there is no ledger at sqlite:///typo.db: say --audit URL" in refused
    assert [one.name for one in tmp_path.iterdir()] == ["plan.json"]
    assert bench.bodies() == bodies
