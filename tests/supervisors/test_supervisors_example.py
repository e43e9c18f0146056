"""The example of the documentation runs as it is printed there."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs/supervisors/example.py"


async def test_the_example_counts_through_a_restart(autojump_clock, capsys):
    """S20, S27, S46: the documented service restarts its flaky poller after its backoff."""
    totals = await runpy.run_path(str(EXAMPLE))["main"]()
    assert totals == {"steady": 10, "flaky": 10}
    assert "flaky #2 running" in capsys.readouterr().out


def test_the_example_fits_on_a_page():
    """S59: the example has at most forty lines of code."""
    lines = [line for line in EXAMPLE.read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) <= 40
