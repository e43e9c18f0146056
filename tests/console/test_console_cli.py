"""``craig-mq console`` as an operator starts and ends it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from craig_mq.cli import main

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"CRAIG_MQ_AMQP_URL": "memory://", "CRAIG_MQ_QUEUE": "security.dlq"}


def invoke(*arguments: str, folder: Path):
    """Run ``craig-mq console`` in process, for mistakes that end it at once."""
    return CliRunner().invoke(
        main, ["console", "--port", "0", "--folder", str(folder), *arguments], env=ENVIRONMENT
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--service", "h:99999"), "is no address: say HOST:PORT"),
        (("--hot-window", "soon"), "no duration: write 90s"),
        (("--host", "0.0.0.0"), "is not one of '127.0.0.1', '::1'"),
        (("--port", "65536"), "65536"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, arguments, words) -> None:
    """A bad address, window, host or port ends the command with exit code 2 and what to say instead."""
    result = invoke(*arguments, folder=tmp_path)
    assert result.exit_code == 2
    assert words in result.output


def test_a_port_in_use_and_a_folder_that_cannot_be_are_named(tmp_path) -> None:
    """A taken port is exit code 2, a folder that can't be made is 1; each is one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = invoke("--port", port, folder=tmp_path)
    assert (result.exit_code, "choose another --port" in result.output) == (2, True)
    (tmp_path / "file").touch()
    result = invoke(folder=tmp_path / "file")
    assert (result.exit_code, result.exception.__class__) == (2, SystemExit)
    result = invoke(folder=tmp_path / "file" / "below")
    assert result.exit_code == 1
    assert "can't be used" in result.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(tmp_path, number) -> None:
    """The printed address opens a session over a socket; a signal ends the process with exit code 0."""
    command = [sys.executable, "-m", "craig_mq", "console", "--port", "0", "--folder", str(tmp_path)]
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        address, _, token = process.stdout.readline().strip().partition("#t=")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address), process.stderr.read()
        with httpx.Client(base_url=address, headers={"Sec-Fetch-Site": "same-origin"}) as client:
            assert client.get("/").status_code == 200
            assert client.get("/api/state").status_code == 401
            assert client.post("/api/session", json={"token": token}).status_code == 200
            assert client.get("/api/state").json()["queue"] == "security.dlq"
            assert client.post("/api/read", json={}).status_code == 404
            evil = {"Origin": "https://evil.example"}
            assert client.post("/api/read", json={}, headers=evil).status_code == 403
            assert client.get("/api/state", headers={"Host": "evil.example"}).status_code == 421
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
