"""The runbook is true: complete, in five steps, and its commands run."""

import json
import re
import shlex
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from craig_mq.core.capture_format import QuarantineReason
from craig_mq.core.session_end import SessionEnd
from craig_mq.observe.instruments import Instruments

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
RUNBOOK = (DOCS / "runbook.md").read_text(encoding="utf-8")
RULES = (DOCS / "alerts" / "rules.yml").read_text(encoding="utf-8")
DASHBOARD = (DOCS / "alerts" / "dashboard.json").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
STEPS = ["Detection", "Identification", "Investigation", "Resolution", "Proof"]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATUS = {"state": "ready"}


def test_every_reason_and_every_end_has_an_entry_in_five_steps() -> None:
    """The runbook has one entry for each reason code and each session end, each in the same five steps."""
    assert list(ENTRIES) == [one.value for one in QuarantineReason] + [one.value for one in SessionEnd]
    for title, text in ENTRIES.items():
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == STEPS, title


def _fill(bench, entry: str) -> None:
    reasons = {one.value: one for one in QuarantineReason}
    reason = reasons.get(entry, QuarantineReason.PERMANENT)
    malformed = reason in {QuarantineReason.MALFORMED, QuarantineReason.OVERSIZE}
    key = "other" if reason is QuarantineReason.NONCANONICAL_ROUTE else "dlq.svc.a"
    body = b"\xff" if malformed else None
    bench.fill(bench.capture(reason=reason, at_s=time.time() - 60, body=body, key=key))


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_commands_of_an_entry_run(bench, ledger, entry, tmp_path, monkeypatch) -> None:
    """Every command of an entry runs in order, on a broker that holds one message of that reason."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRAIG_MQ_AUDIT_URL", ledger)
    monkeypatch.setattr("craig_mq.cli.status.fetch_status", lambda _: STATUS)
    _fill(bench, entry)
    commands = [line for block in CONSOLE.findall(ENTRIES[entry]) for line in block.splitlines()]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "craig-mq"
        bench.run(*arguments)
    if entry in {one.value for one in QuarantineReason}:
        assert bench.bodies() == ()


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    """Every series that an alert or a panel reads is exported, and every alert has its entry."""
    registry = CollectorRegistry()
    Instruments(registry)
    exported = {sample.name for metric in registry.collect() for sample in metric.samples}
    for metric in registry.collect():
        counter = f"{metric.name}_total" if metric.type == "counter" else metric.name
        suffixes = ("_bucket", "_count", "_sum") if metric.type == "histogram" else ("",)
        exported |= {counter + suffix for suffix in suffixes}
    used = set(re.findall(r"\bdlq_\w+", RULES + DASHBOARD))
    assert used - exported == set()
    assert len(used) >= 12
    alerts = re.findall(r"- alert: (\w+)", RULES)
    assert set(re.findall(r"`(Dlq\w+)`", RUNBOOK)) <= set(alerts)
    sections = set(re.findall(r'runbook: "runbook.md, section (\w+)"', RULES))
    assert sections - {"Reasons"} <= ENTRIES.keys()


def test_the_dashboard_is_whole() -> None:
    """The dashboard is JSON whose panels have distinct ids and places, and a query each."""
    panels = json.loads(DASHBOARD)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    assert all(
        panel["targets"][0]["expr"].count("(") == panel["targets"][0]["expr"].count(")") for panel in panels
    )
