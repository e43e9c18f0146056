"""The rules table is complete, and the tests it names exist and say so themselves."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path

from supervisors import diagram, rules
from supervisors.diagram import render_svg
from supervisors.rules import load_rules, main, render_markdown, render_rules
from supervisors.transitions import TRANSITIONS

HERE = Path(__file__).parent


def specifications() -> dict[str, set[str]]:
    """``file::test`` -> the rule ids before the colon of its docstring."""
    found: dict[str, set[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                head = (ast.get_docstring(node) or "").split(":")[0]
                found[f"{path.name}::{node.name}"] = set(re.findall(r"S\d+", head))
    return found


def test_the_table_holds_all_rules_in_order():
    """S52: the table has the rules S1 to S61, each once, in order, each with a text."""
    table = load_rules()
    assert [rule.id for rule in table] == [f"S{n}" for n in range(1, 62)]
    assert all(rule.text and rule.section for rule in table)


def test_every_rule_names_tests_that_exist():
    """S52: each rule has at least one test; each named test exists and names the rule in its docstring."""
    known = specifications()
    for rule in load_rules():
        assert rule.tests, f"{rule.id} has no test"
        for test in rule.tests:
            assert test in known, f"{rule.id} names {test}, which does not exist"
            assert rule.id in known[test], f"{test} does not name {rule.id}"


def test_every_test_that_names_a_rule_is_in_the_table():
    """S52: a test that claims a rule is listed with it."""
    listed = {rule.id: set(rule.tests) for rule in load_rules()}
    missing = [
        (rule, test) for test, named in specifications().items() for rule in named if test not in listed[rule]
    ]
    assert missing == []


def test_the_command_prints_each_rule_with_its_tests(capsys, monkeypatch):
    """S52: python -m supervisors.rules prints every rule and every test."""
    monkeypatch.setattr(sys, "argv", ["rules"])
    runpy.run_path(rules.__file__, run_name="__main__")
    printed = capsys.readouterr().out
    assert printed == render_rules(load_rules()) + "\n"
    for rule in load_rules():
        assert f"{rule.id}  {rule.text}" in printed
        assert all(test in printed for test in rule.tests)


DOCS = HERE.parents[1] / "docs/supervisors"


def test_the_page_of_the_rules_is_the_table(capsys):
    """S52: the rules page of the documentation is what the table gives."""
    main(["--markdown"])
    assert capsys.readouterr().out == (DOCS / "rules.md").read_text("utf-8")
    assert render_markdown(load_rules()).count("{download}") == sum(len(rule.tests) for rule in load_rules())


def test_the_diagram_is_the_transition_table(capsys):
    """S52: the diagram of the documentation is drawn from the transition table: every edge."""
    runpy.run_path(diagram.__file__, run_name="__main__")
    assert capsys.readouterr().out == (DOCS / "transitions.svg").read_text("utf-8")
    svg = render_svg()
    assert svg.count("<path") == len(TRANSITIONS)
    assert all(f">{cause}<" in svg for cause in set(TRANSITIONS.values()))
