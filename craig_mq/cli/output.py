"""Output that can't be written: one line for a full disk, silence for a reader that went away."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Generator
from typing import Final, cast

import click

_NOT_WRITTEN: Final = 1


class _Output(io.TextIOWrapper):
    """Standard output that remembers what kept it from being written."""

    failure: OSError | None = None

    def write(self, text: str, /) -> int:
        with self._remembering():
            return super().write(text)

    def flush(self) -> None:
        with self._remembering():
            super().flush()

    @contextlib.contextmanager
    def _remembering(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            self.failure = error
            raise


@contextlib.contextmanager
def output_errors() -> Generator[None]:
    """End in one line and exit code 1 where stdout can't be written; silently where its reader went away."""
    stdout = cast("io.TextIOWrapper", sys.stdout)
    if not isinstance(sys.stdout, io.TextIOWrapper):  # captured by the program around it
        yield
        return
    sys.stdout = output = _Output(
        stdout.buffer,
        encoding=stdout.encoding,
        errors=stdout.errors,
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )
    try:
        yield
    except BaseException:
        _end(output, stdout)
        raise
    _end(output, stdout)


def _end(output: _Output, stdout: io.TextIOWrapper) -> None:
    """Put stdout back. Raises SystemExit where something was not written."""
    with contextlib.suppress(OSError):
        output.flush()
    if output.failure is not None:
        with contextlib.suppress(OSError):  # what is left would fail once more when the interpreter ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
    sys.stdout = stdout
    output.detach()
    if output.failure is None:
        return
    if not isinstance(output.failure, BrokenPipeError):
        click.echo(f"Error: cannot write the output: {output.failure.strerror}", err=True)
    raise SystemExit(_NOT_WRITTEN) from None
