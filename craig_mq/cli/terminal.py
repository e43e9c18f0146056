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
    """A table of rows. The columns named in ``fold`` give way on a narrow terminal, the others never break."""
    table = Table(box=None, pad_edge=False)
    for name in names:
        folds = name in fold
        table.add_column(name, no_wrap=not folds, overflow="fold", min_width=_FOLDED if folds else None)
    return table


def facts() -> Table:
    """A table of names, each with its value, which folds."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def show(view: RenderableType) -> None:
    """Print ``view``; a table's lines that cannot be as narrow as the terminal are wrapped by the terminal."""
    console = Console()
    if not _is_bounded():
        console.width = _ENDLESS
    elif isinstance(view, Table):
        view.collapse_padding = _least_width(console, view) > console.width
        console.width = max(console.width, _least_width(console, view))
    console.print(view)


def _is_bounded() -> bool:
    return "COLUMNS" in os.environ or sys.stdout.isatty()


def _least_width(console: Console, table: Table) -> int:
    """The width of ``table`` with its folding columns as narrow as they get."""
    folding = [column for column in table.columns if not column.no_wrap]
    for column in folding:
        column.max_width = _FOLDED
    measured = Measurement.get(console, console.options.update_width(_ENDLESS), table)
    for column in folding:
        column.max_width = None
    return measured.maximum
