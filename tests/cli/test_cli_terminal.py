"""Tables on a terminal of any width, and into a pipe."""

import pytest
from rich.text import Text

from craig_mq.cli.doctor import _print
from craig_mq.cli.terminal import listing, show
from craig_mq.operator.doctor.findings import Finding, Level

KEY = "sha256:" + "0123456789abcdef" * 4
ERROR = "connection to server at 10.1.2.3 failed: timeout expired after 30 s"
URL = f"amqp://guest@rabbit.{'internal.' * 20}example:5672/vhost"


def _rows():
    table = listing(
        "age", "reason", "event type", "redrivable", "last error", "key", fold=("last error", "key")
    )
    table.add_row(*map(Text, ("533d", "malformed", "invoice.paid", "no", ERROR, KEY)))
    return table


def test_nothing_is_folded_into_a_pipe(monkeypatch, capsys) -> None:
    """Without a terminal and without COLUMNS a table is as wide as its content, a line a row."""
    monkeypatch.delenv("COLUMNS", raising=False)
    show(_rows())
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["age", "reason"]
    assert row.split("  ")[-1].strip() == KEY
    assert ERROR in row


@pytest.mark.parametrize("width", [40, *range(54, 66), 80, 120])
def test_short_columns_never_break_a_word(monkeypatch, capsys, width) -> None:
    """On a narrow terminal the named columns fold and lose nothing; the short ones stay whole."""
    monkeypatch.setenv("COLUMNS", str(width))
    show(_rows())
    lines = capsys.readouterr().out.splitlines()
    [first] = [number for number, line in enumerate(lines) if line.startswith("533d")]
    assert lines[first].split()[:4] == ["533d", "malformed", "invoice.paid", "no"]
    start = lines[first - 1].index("key")
    assert "".join(line[start:].strip() for line in lines[first:]) == KEY
    assert max(map(len, lines)) <= max(width, 57)


def test_a_folding_column_is_no_wider_than_its_content(monkeypatch, capsys) -> None:
    """A table without rows is its headings, each as wide as it is."""
    monkeypatch.setenv("COLUMNS", "80")
    show(listing("age", "id", "key", fold=("id", "key")))
    assert capsys.readouterr().out == "age  id  key\n"


def test_the_doctor_cuts_no_address_short(monkeypatch, capsys) -> None:
    """A broker's address and a queue's name are printed whole into a pipe, and folded on a terminal."""
    findings = [Finding("connection", URL, Level.FAIL, "refused", "check that the broker runs")]
    monkeypatch.delenv("COLUMNS", raising=False)
    _print(findings)
    assert URL in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "80")
    _print(findings)
    folded = capsys.readouterr().out
    assert "…" not in folded
    assert max(map(len, folded.splitlines())) <= 80
