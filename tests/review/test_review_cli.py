"""The command line: what it prints, writes and refuses."""

import json

import pytest
from click.testing import CliRunner

from craig_mq.cli.review import review_group
from craig_mq.review import Params, caption, export, simulate, trace


def invoke(*arguments):
    """Run the group in process."""
    return CliRunner().invoke(review_group, arguments)


def test_the_json_is_the_export():
    """`run --json` prints the export of the parameters set."""
    done = invoke("run", "--json", "--set", "max_receives=3", "--set", "repair=false")
    assert done.output == export(simulate(Params(max_receives=3, repair=False)))
    assert {"outcome", "events", "snapshots", "ledger", "parameters"} <= set(json.loads(done.output))


def test_the_trace_and_a_caption():
    """`run --trace` prints one line per transition, `run --caption I` the sentence of snapshot I."""
    run = simulate(Params())
    assert invoke("run", "--trace").output.splitlines() == list(trace(run))
    assert invoke("run", "--caption", "8").output == caption(run, 8) + "\n"


def test_the_columns_are_explained():
    """The table has its legend below it, and the help explains every column that is no plain word."""
    assert "Receives: in this cycle (in all cycles)." in " ".join(invoke("run").output.split())
    explained = invoke("run", "--help").output
    for column in ("Key", "Cycle", "Receives", "Effects", "Hits", "Delta"):
        assert f"\n    {column} " in explained


@pytest.mark.parametrize("step", [[], ["--step", "8"]])
def test_the_terminal_shows_diagram_table_and_ledger(step):
    """By default the last snapshot is shown as diagram, table, ledger, sentence; `--step` shows another."""
    done = invoke("run", *step)
    run = simulate(Params())
    assert done.exit_code == 0
    for title in ("Source", "Quarantine", "Committed effects", "Acknowledged", "Expired"):
        assert title in done.output
    assert "uncertain/1" in done.output
    assert f"Committed-effect ledger: {2 if step else 4}" in done.output
    assert caption(run, 8 if step else 17) in " ".join(done.output.split())
    assert "…" not in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "max_receives=0"], "max_receives must be a whole number from 1 to 6"),
        (["--set", "max_receives=true"], "max_receives must be"),
        (["--set", "action=transient"], "action must be one of hold, all, poison, uncertain"),
        (["--set", "speed=2"], "speed must be a known parameter"),
        (["--set", "max_receives"], "--set takes NAME=VALUE"),
        (["--caption", "18"], "snapshot 18 of a run with snapshots 0 to 17"),
        (["--step", "-1"], "snapshot -1"),
        (["--json", "--trace"], "choose one of"),
    ],
)
def test_a_bad_parameter_is_one_clear_line(arguments, words):
    """Bad parameters end with exit code 2 and one line on stderr that names them."""
    done = invoke("run", *arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_the_export_file(tmp_path):
    """`export --out` writes the same bytes each time, and says where and how many."""
    out = tmp_path / "run.json"
    done = invoke("export", "--out", str(out), "--set", "identity=new")
    assert (done.exit_code, done.output) == (0, f"{out}: {out.stat().st_size:,} bytes\n")
    assert out.read_bytes() == export(simulate(Params(identity="new"))).encode()


@pytest.mark.timeout(900)
def test_the_html_file(tmp_path, monkeypatch, grid):
    """`html --out` writes one whole document whose policy forbids every connection."""
    monkeypatch.setattr("craig_mq.review.page.offline.build_grid", lambda: grid)
    out = tmp_path / "review.html"
    assert invoke("html", "--out", str(out)).exit_code == 0
    text = out.read_text(encoding="utf-8")
    assert "connect-src 'none'" in text
    assert '<link rel="stylesheet"' not in text
    assert " src=" not in text


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    """An output file in a folder that does not exist is named on one line, with exit code 1."""
    out = tmp_path / "absent" / "run.json"
    result = invoke("export", "--out", str(out))
    assert result.exit_code == 1
    assert f"cannot write {out}: No such file or directory" in result.output
