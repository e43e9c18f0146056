"""The rules this package keeps, each with the tests that prove it. ``python -m supervisors.rules`` prints them."""

from __future__ import annotations

import sys
import tomllib
from importlib.resources import files

import attrs


@attrs.frozen
class Rule:
    """One rule: its id (``S12``), its section, its text, and tests as ``file.py::test_name``."""

    id: str
    section: str
    text: str
    tests: tuple[str, ...]


def load_rules() -> tuple[Rule, ...]:
    """Every rule, in order."""
    table = tomllib.loads(files("supervisors").joinpath("rules.toml").read_text("utf-8"))
    return tuple(
        Rule(row["id"], section["title"], row["text"], tuple(row["tests"]))
        for section in table["section"]
        for row in section["rule"]
    )


def render_rules(rules: tuple[Rule, ...]) -> str:
    """The table as text, one block per rule."""
    lines: list[str] = []
    section = ""
    for rule in rules:
        if rule.section != section:
            section = rule.section
            lines += ["", section, "=" * len(section)]
        lines.append(f"{rule.id}  {rule.text}")
        lines += [f"      {test}" for test in rule.tests]
    return "\n".join(lines[1:])


def main() -> None:
    """Print the table."""
    sys.stdout.write(render_rules(load_rules()) + "\n")


if __name__ == "__main__":
    main()
