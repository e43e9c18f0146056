"""A recorder whose ledger cannot be opened."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from craig_mq.cli import main


@pytest.mark.parametrize("name", ["absent/audit.db", "corrupt.db"])
def test_a_ledger_that_cannot_be_opened_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A ledger in a missing folder, or in a file that is no database, ends ``run`` with exit code 1."""
    (tmp_path / "corrupt.db").write_text("no database, " * 100, encoding="utf-8")
    monkeypatch.setattr("craig_mq.cli.run._log_to_stderr", lambda *_: None)  # else it outlives the test
    arguments = ["run", "--queue", "q.dlq", "--amqp", "memory://", "--audit", f"sqlite:///{tmp_path / name}"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert "Error: the ledger can't be opened: " in result.output
