"""What nobody should type, and what nobody should have left on the disk: one line each, never a traceback."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path

import pytest
from click.testing import CliRunner

from craig_mq.cli import main
from craig_mq.core.capture_format import QuarantineReason

LONE = "a\udcff"
"""How Python reads the byte 0xFF in an argument or a variable."""


def _run(*arguments: str, **environment: str):
    result = CliRunner().invoke(main, arguments, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (("audit", "list", "--service", LONE), {}, "argument 4 is not UTF-8"),
        (("quarantine", "--queue", LONE, "list"), {}, "argument 3 is not UTF-8"),
        (("status",), {"CRAIG_MQ_AMQP_URL": f"amqp://u:hunter2{LONE}@h"}, "CRAIG_MQ_AMQP_URL is not UTF-8"),
    ],
)
def test_bytes_that_are_no_text_are_refused_before_anything_uses_them(arguments, environment, words) -> None:
    """An argument or variable that is not UTF-8 is a usage error that names its place and not its value."""
    result = _run(*arguments, **environment)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "hunter2" not in result.output


def test_a_locale_without_an_arrow_ends_no_command() -> None:
    """Under a locale that is ASCII the doctor still prints its findings, in UTF-8."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "CRAIG_MQ_AMQP_URL": "memory://"}
    command = (sys.executable, "-m", "craig_mq", "doctor", "--queue", "q")
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.stderr == b""
    assert "→" in done.stdout.decode()
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("amqp://u:hunter2@[::1/", "the broker URL's host is malformed"),
        ("amqp://u:hun/ter2@h", "must be written %2F"),
    ],
)
@pytest.mark.parametrize("command", ["doctor", "status"])
def test_a_broken_broker_url_is_refused_before_the_management_api_is_asked(command, url, words) -> None:
    """A broker URL that cannot be parsed is exit code 2, also where its virtual host is needed on its own."""
    result = _run(command, "--queue", "q", "--management", "http://h", CRAIG_MQ_AMQP_URL=url)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "ter2" not in result.output


class _Other(http.server.BaseHTTPRequestHandler):
    """Some other program that serves JSON."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'["not", "ours"]')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""


@pytest.fixture
def other() -> Iterator[str]:
    """The address of a server that is neither a service nor a management API."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Other)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("url", ["http://u:hun/ter2@h", "http://u:hunter2@[::1", "ftp://u:hunter2@h"])
def test_a_broken_management_url_is_a_finding_without_its_password(bench, url) -> None:
    """A management URL that cannot be parsed is one FAIL that says what to encode and quotes nothing."""
    found = bench.run("doctor", "--management", url, exit_code=1).output
    assert "percent-encoded" in " ".join(found.split())
    assert "ter2" not in found
    assert "'hun'" not in found


def test_another_programs_json_is_told_apart(bench, other) -> None:
    """What serves JSON but is no management API or service is a failure in one line."""
    found = bench.json("doctor", "--management", f"http://u:p@{other}", exit_code=1)
    [wrong] = [one for one in found["findings"] if one["check"] == "management API"]
    assert "no management API" in wrong["text"]
    assert "no craig-mq service" in bench.run("status", "--service", other, exit_code=1).output


@pytest.mark.parametrize("name", ["missing/plan.json", "x" * 300, "file/plan.json"])
def test_a_release_plan_that_cannot_be_written_is_one_line(bench, tmp_path: Path, name) -> None:
    """A plan path that no file can have is exit code 2, and parking stays as it was."""
    (tmp_path / "file").touch()
    bodies = bench.fill(bench.capture(reason=None), queue=bench.parking)
    refused = bench.run("parking", "release", "--plan", tmp_path / name, exit_code=2).output
    assert "cannot write" in refused
    assert bench.bodies(bench.parking) == bodies


def test_half_a_plan_is_not_left_behind(bench, tmp_path: Path, monkeypatch) -> None:
    """On a full disk the plan is one line and no file, so that the same command works once there is room."""
    bench.fill(bench.capture())
    out = tmp_path / "plan.json"

    def full(path: Path) -> BufferedWriter:
        path.touch()
        return Path("/dev/full").open("wb")

    with monkeypatch.context() as patched:
        patched.setattr("craig_mq.operator.plan.open_new", full)
        refused = bench.run("quarantine", "plan", "--out", out, exit_code=2).output
    assert "No space left" in refused
    assert not out.exists()
    assert bench.json("quarantine", "plan", "--out", out)["messages"] == 1


@pytest.mark.parametrize("kind", ["edited", "folder"])
def test_an_import_refuses_a_spoiled_record_of_what_it_did(bench, tmp_path: Path, kind) -> None:
    """An import whose own notes are unreadable publishes nothing, since it can't know what it published."""
    bench.fill(bench.capture(body=b"\xff", reason=QuarantineReason.MALFORMED))
    folder = tmp_path / "drained"
    bench.run("quarantine", "drain", "--where", "reason=malformed", "--to", folder)
    notes = folder / "import.jsonl"
    notes.write_text("{}\n") if kind == "edited" else notes.mkdir()
    words = "was edited" if kind == "edited" else "Is a directory"
    assert words in bench.run("quarantine", "import", folder, exit_code=1).output
    assert bench.bodies() == ()
