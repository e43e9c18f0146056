"""A recorder whose ledger cannot be opened."""

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from craig_mq.audit.opening import shown_url
from craig_mq.cli import main
from craig_mq.service.recorder import Recorder, run_recorder
from craig_mq.testing import MemoryBroker


@pytest.mark.parametrize(
    ("name", "step"),
    [("absent/audit.db", "; check that the file's folder exists and may be written"), ("corrupt.db", "")],
)
def test_a_ledger_that_cannot_be_opened_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: str
) -> None:
    """A ledger in a missing folder, or in a file that is no database, is named; ``run`` exits 1."""
    (tmp_path / "corrupt.db").write_text("no database, " * 100, encoding="utf-8")
    monkeypatch.setattr("craig_mq.cli.run._log_to_stderr", lambda *_: None)  # else it outlives the test
    arguments = ["run", "--queue", "q.dlq", "--amqp", "memory://", "--audit", f"sqlite:///{tmp_path / name}"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert f"Error: the ledger can't be opened: sqlite:///{tmp_path / name}: " in result.output
    assert result.output.endswith(f"{step}\n")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/lib/audit.db", "sqlite:////var/lib/audit.db"),
        (
            "postgresql://me:sekret@db.example:5433/ledger?password=sekret",
            "postgresql://db.example:5433/ledger",
        ),
        ("postgres:///ledger?host=/run/pg&user=me&password=sekret", "postgresql:///run/pg/ledger"),
    ],
)
def test_a_shown_ledger_has_no_credentials(url: str, shown: str) -> None:
    """Of a PostgreSQL URL only host, port and database are shown, wherever the password stands."""
    assert shown_url(url) == shown
    assert "sekret" not in shown


async def test_a_recorder_says_what_it_records_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One INFO record names queue, binding keys, ledger and the metrics address that was bound."""
    url, told = f"sqlite:///{tmp_path / 'audit.db'}", []

    def info(message: str, **extra: dict[str, dict[str, str]]) -> None:
        told.append((message, extra["extra"]["fields"]))
        scope.cancel()

    monkeypatch.setattr("craig_mq.service.recorder.LOGGER.info", info)
    recorder = Recorder("q.dlq", url, binding_keys=("dlq.a", "dlq.b"), metrics=("127.0.0.1", 0))
    with trio.CancelScope() as scope:
        await run_recorder(MemoryBroker(), recorder, CollectorRegistry())
    [(message, fields)] = told
    host, port = fields.pop("metrics").split(":")
    assert (message, host, int(port) > 0) == ("recording", "127.0.0.1", True)
    assert fields == {"queue": "q.dlq", "binding_keys": "dlq.a,dlq.b", "ledger": url}
