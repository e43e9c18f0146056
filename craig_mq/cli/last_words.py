"""What a command says as it fails: no credential, whatever was typed where, and no traceback for a Ctrl-C."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Generator
from typing import Final

import click

from craig_mq.operator.connecting import sole

INTERRUPTED: Final = 128 + signal.SIGINT
# One slash: a URL given where a path is wanted is printed as pathlib normalises it.
_CREDENTIALS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,2})[^\s/'\"]*[^\s'\"]*@")


def without_credentials(text: str) -> str:
    """The text with user and password of every URL in it replaced."""
    return _CREDENTIALS.sub(r"\1***@", text)


class Interrupted(click.ClickException):
    """Ctrl-C: one word, and the exit code that shells give to it."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted")


@contextlib.contextmanager
def last_words() -> Generator[None]:
    """Redact what a click error says; turn a Ctrl-C, alone or in a group of one, into ``Interrupted``."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = without_credentials(error.message)  # click declares it final
        raise
    except KeyboardInterrupt:
        raise Interrupted from None
    except BaseExceptionGroup as group:
        if isinstance(sole(group), KeyboardInterrupt):
            raise Interrupted from None
        raise
