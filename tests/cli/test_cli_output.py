"""Output that can't be written, and other small mistakes, end in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from craig_mq.cli import main

NO_SPACE = "Error: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("arguments", [("review", "run"), ("review", "run", "--json"), ("--help",)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(arguments, unbuffered) -> None:
    """Whatever prints to a device that is full ends in one line and exit code 1, buffered or not."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "craig_mq", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={"PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
    assert (done.returncode, done.stderr) == (1, NO_SPACE)


def test_a_reader_that_went_away_is_silent() -> None:
    """A pipe whose reader has gone ends the command with exit code 1 and no word."""
    command = [sys.executable, "-m", "craig_mq", "review", "run", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_setting_without_a_name_is_explained() -> None:
    """``--set =3`` says what --set takes, with exit code 2."""
    result = CliRunner().invoke(main, ["review", "run", "--set", "=3"])
    assert (result.exit_code, result.stderr) == (2, "Error: --set takes NAME=VALUE, not '=3'\n")


def test_the_file_is_tried_before_the_page_is_built(monkeypatch, tmp_path) -> None:
    """``review html`` refuses a file it can't write before its work, and leaves none behind."""

    def never():
        raise AssertionError("it was built")

    monkeypatch.setattr("craig_mq.review.page.offline.offline_page", never)
    result = CliRunner().invoke(main, ["review", "html", "--out", str(tmp_path / "no" / "x.html")])
    assert result.exit_code == 1
    assert "cannot write" in result.stderr
    result = CliRunner().invoke(main, ["review", "html", "--out", str(tmp_path / "x.html")])
    assert isinstance(result.exception, AssertionError)
    assert not (tmp_path / "x.html").exists()


def test_an_ordinary_output_is_unchanged() -> None:
    """A command that can write does, and exits 0."""
    result = CliRunner().invoke(main, ["review", "run", "--caption", "0"])
    assert result.exit_code == 0
    assert result.stdout.startswith("Step 0 of 17")


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("anycorn", ("review", "serve", "--port", "0"), "web"),
        ("markupsafe", ("review", "html", "--out", "page.html"), "web"),
        ("anycorn", ("console", "--queue", "q.dlq", "--port", "0"), "web"),
        ("psycopg", ("audit", "--audit", "postgresql://localhost/x", "stats"), "postgres"),
    ],
)
def test_a_missing_extra_is_one_line(tmp_path: Path, package: str, arguments, extra: str) -> None:
    """A command whose extra is not installed ends with exit code 1 or 2 and names the extra, in one line."""
    script = f"import sys; sys.modules[{package!r}] = None; from craig_mq.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=60,
    )
    assert done.returncode in {1, 2}
    assert done.stderr.splitlines()[-1].endswith(f"needs the extra: pip install 'craig-mq[{extra}]'")
    assert "Traceback" not in done.stderr
