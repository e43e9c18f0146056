"""What a command says as it fails."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from craig_mq.cli import main
from craig_mq.runtime.errors import StartTimedOut, SubscribeDlqError, SubscribeErrorKind

URL = "amqp://u:SECRETPW@127.0.0.1:1/"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--amqp", "memory://", "--queue", "x", "--metrics", "http://u:SECRETPW@127.0.0.1:1/"],
        ["run", "--queue", "x", "--amqp-file", URL],
        ["run", "--queue", "x", "--config", URL],
        ["run", URL, "--queue", "x"],
        ["status", URL],
        ["topology", "show", URL],
        [URL],
        ["quarantine", URL],
        ["demo", "--messages", URL],
        ["console", "--port", URL],
    ],
    ids=" ".join,
)
def test_a_url_in_the_wrong_place_shows_no_password(arguments):
    """Whatever option or argument a URL was given to, its user and password are not printed."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "SECRETPW" not in result.output
    assert "***@127.0.0.1:1" in result.output


def fail_with(error, monkeypatch):
    def run(*_, **__):
        raise error

    monkeypatch.setattr("craig_mq.cli.demo.trio.run", run)
    return CliRunner().invoke(main, ["demo", "--json"])


def test_a_broker_that_does_not_answer_is_one_line(monkeypatch):
    """A subscription that was refused inside a nursery is told as one line, not as a traceback."""
    refused = SubscribeDlqError(SubscribeErrorKind.AMQP, StartTimedOut("not consuming within 30 s"))
    result = fail_with(ExceptionGroup("nursery", [ExceptionGroup("inner", [refused])]), monkeypatch)
    assert (result.exit_code, result.output) == (1, "Error: cannot subscribe: not consuming within 30 s\n")


@pytest.mark.parametrize("wrap", [lambda error: error, lambda error: BaseExceptionGroup("nursery", [error])])
def test_an_interrupt_is_one_word_and_130(monkeypatch, wrap):
    """Ctrl-C ends a command with exit code 130 and no traceback, also out of a nursery."""
    result = fail_with(wrap(KeyboardInterrupt()), monkeypatch)
    assert (result.exit_code, result.output) == (130, "Error: interrupted\n")


def test_two_errors_stay_what_they_are(monkeypatch):
    """A group of several errors is a bug of ours and keeps its traceback."""
    result = fail_with(ExceptionGroup("nursery", [KeyError(), ValueError()]), monkeypatch)
    assert isinstance(result.exception, ExceptionGroup)
