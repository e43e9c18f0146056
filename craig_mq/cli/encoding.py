"""Texts in and out are UTF-8, whatever the locale says."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final

import click

_VARIABLES: Final = "CRAIG_MQ_"


def require_utf8(arguments: Sequence[str]) -> None:
    """Refuse what is not UTF-8 before anything uses it: no broker or ledger can hold such a text.

    Raises UsageError, which names the place and quotes nothing.
    """
    for position, text in enumerate(arguments, 1):
        if not _is_utf8(text):
            raise click.UsageError(f"argument {position} is not UTF-8")
    for name, text in os.environ.items():
        if name.startswith(_VARIABLES) and not _is_utf8(text):
            raise click.UsageError(f"the variable {name} is not UTF-8")


def write_utf8() -> None:
    """Let stdout and stderr be UTF-8 under any locale: an arrow or a name must not end a command.

    JSON is UTF-8 in any case (RFC 8259).
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
