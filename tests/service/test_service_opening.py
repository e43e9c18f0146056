"""A recorder whose ledger cannot be opened."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from craig_mq.cli import main


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
