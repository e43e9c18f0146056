"""``craig-mq run``: which queue it records, and whether it makes spans."""

import sys

import pytest
from click.testing import CliRunner
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from craig_mq.cli import main
from craig_mq.observe.spans import Spans


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The recorders that ``run`` would have served, none of which it does."""
    found = []

    async def serve(url, recorder):
        found.append(recorder)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRAIG_MQ_AMQP_URL", "memory://")
    monkeypatch.setattr("craig_mq.cli.run._serve", serve)
    monkeypatch.setattr("craig_mq.cli.run._log_to_stderr", lambda *_: None)
    return found


def run(*arguments, exit_code=0):
    """Call the command and return what it said."""
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_the_queue_comes_from_the_variable_unless_said(started, monkeypatch):
    """CRAIG_MQ_QUEUE names the queue, an option overrides it, and without either the line names both."""
    assert "CRAIG_MQ_QUEUE" in run(exit_code=2)
    monkeypatch.setenv("CRAIG_MQ_QUEUE", "billing.dlq")
    run()
    run("--queue", "security.dlq")
    assert [recorder.queue for recorder in started] == ["billing.dlq", "security.dlq"]


def test_the_ledger_comes_from_the_variable_unless_said(started, monkeypatch):
    """CRAIG_MQ_AUDIT_URL names the ledger ``run`` records in, as it does for ``audit``; an option wins."""
    monkeypatch.setenv("CRAIG_MQ_AUDIT_URL", "sqlite:///env.db")
    run("--queue", "q")
    run("--queue", "q", "--audit", "sqlite:///said.db")
    assert [recorder.audit_url for recorder in started] == ["sqlite:///env.db", "sqlite:///said.db"]


def test_spans_are_made_only_when_asked_for(started, monkeypatch):
    """``--spans`` or CRAIG_MQ_SPANS adds the observer that makes spans; without them there is none."""
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    run("--queue", "q")
    run("--queue", "q", "--spans")
    monkeypatch.setenv("CRAIG_MQ_SPANS", "1")
    run("--queue", "q")
    kinds = [[type(observer) for observer in recorder.observers] for recorder in started]
    assert kinds == [[], [Spans], [Spans]]


def test_spans_without_a_kit_are_refused(started, monkeypatch):
    """Spans that nobody collects are refused in one line that says how to start, and nothing is served."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    assert "opentelemetry-instrument" in run("--queue", "q", "--spans", exit_code=2)
    assert started == []


def test_spans_without_the_extra_are_refused(started, monkeypatch):
    """Without the extra the line says which one to install, and nothing is served."""
    for name in ("opentelemetry", "opentelemetry.trace", "craig_mq.observe.spans"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "needs the extra: pip install 'craig-mq[otel]'" in run("--queue", "q", "--spans", exit_code=1)
    assert started == []
