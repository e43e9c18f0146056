"""Tables on stdout: nothing is cut off; what goes into a pipe is as wide as its content."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import Final

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table

_ENDLESS: Final = 1_000_000
_FOLDED: Final = 8


def listing(*names: str, fold: Collection[str] = ()) -> Table:
    """A table of rows: the columns named in ``fold`` give way on a narrow terminal, the others stay whole."""
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=name not in fold, overflow="fold")
    return table


def facts() -> Table:
    """A table of names, each with its value, which folds."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def show(view: RenderableType) -> None:
    """Print ``view``; where a table cannot be as narrow as the terminal, the terminal wraps its lines."""
    console = Console()
    if not _is_bounded():
        console.width = _ENDLESS
    elif isinstance(view, Table):
        _fit(view, console)
    console.print(view)


def _is_bounded() -> bool:
    return "COLUMNS" in os.environ or sys.stdout.isatty()


def _fit(table: Table, console: Console) -> None:
    """Narrow a table that is too wide, as far as its columns may be; then widen the console to it."""
    options = console.options.update_width(_ENDLESS)
    folding = [column for column in table.columns if not column.no_wrap]
    for column in folding:
        column.max_width = _FOLDED
    table.collapse_padding = Measurement.get(console, options, table).maximum >= console.width
    least = Measurement.get(console, options, table).maximum
    if least >= console.width:
        console.width = least
        return
    for column in folding:
        column.max_width = None
