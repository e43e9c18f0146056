"""Events become spans after OpenTelemetry's messaging conventions, linked across parks and redrives."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
import trio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from craig_mq import Disposition, DlqError, DlqRetryConfig, subscribe_dlq
from craig_mq.core.delivery import Properties
from craig_mq.observe import events as ev
from craig_mq.observe.spans import REMEMBERED, Spans
from craig_mq.operator.journal import open_journal
from craig_mq.operator.pace import Pace
from craig_mq.operator.plan import Ticks, make_plan
from craig_mq.operator.redrive import RedriveOptions, redrive_plan
from craig_mq.operator.scan import scan_queue
from craig_mq.operator.verdict import Knowledge
from craig_mq.testing import MemoryBroker, envelope
from supervisors.shutdown import Shutdown

QUEUE = "security.dlq"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


class Recorded:
    """Spans of one observer, in the order they ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.observer = Spans(self._provider)

    @property
    def spans(self):
        """Every finished span."""
        return self._exporter.get_finished_spans()

    def named(self, name):
        """The finished spans of this name."""
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def recorded() -> Recorded:
    """An observer that keeps its spans."""
    return Recorded()


def links(span) -> list[str]:
    """The span ids that a span links to, as hexadecimal text."""
    return [format(link.context.span_id, "016x") for link in span.links]


async def settle(broker, handler, recorded, *, until) -> None:
    """Run a subscription with a one-second parking TTL until a span of this name has ended."""
    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(
            partial(
                subscribe_dlq,
                broker,
                queue=QUEUE,
                handler=handler,
                config=DlqRetryConfig(parking_ttl=1),
                observer=recorded.observer,
            )
        )
        with trio.fail_after(60):
            while not recorded.named(until):
                await trio.sleep(0.1)
        subscription.shutdown()
        await subscription.wait_closed()


@pytest.fixture
def broker() -> MemoryBroker:
    """A broker with one traced message in the dead-letter queue."""
    broker = MemoryBroker()
    broker.declare_exchange("craig.dlx")
    broker.declare_queue(QUEUE, {"x-queue-type": "classic"})
    broker.bind("craig.dlx", QUEUE, "dlq.#")
    headers = {"traceparent": TRACEPARENT, "tracestate": "a=b"}
    broker.publish("craig.dlx", "dlq.a", envelope(), Properties(message_id="m", headers=headers))
    return broker


async def test_a_parked_message_is_one_story(broker, recorded, autojump_clock) -> None:
    """Process, park, return, process, ack: children and links join them, and both rounds to the producer."""

    async def handler(dead_letter) -> None:
        if dead_letter.park_count == 0:
            raise ConnectionError("not yet")
        await trio.sleep(0.1)  # What is returned may come before its confirm: then nothing is linked.

    await settle(broker, handler, recorded, until="ack security.dlq")
    first, park, back, second, ack = recorded.spans
    assert [span.name for span in recorded.spans] == [
        "process security.dlq",
        "park security.dlq",
        "return security.dlq.parking",
        "process security.dlq",
        "ack security.dlq",
    ]
    assert links(first) == [PARENT]
    assert format(first.links[0].context.trace_id, "032x") == TRACE
    assert first.attributes["craig_mq.disposition"] == "transient_park"
    assert park.parent.span_id == first.context.span_id
    assert links(back) == [format(park.context.span_id, "016x")]
    assert links(second) == [PARENT, format(back.context.span_id, "016x")]
    assert second.attributes["craig_mq.disposition"] == "ok"
    assert ack.parent.span_id == second.context.span_id


async def test_a_redrive_keeps_the_link_to_the_producer(broker, recorded, tmp_path, autojump_clock) -> None:
    """An operator's redrive is a span that links to the producer, and so does the next subscription's."""

    async def refuse(dead_letter) -> None:
        raise DlqError(Disposition.PERMANENT, source=ValueError("no"))

    async def accept(dead_letter) -> None:
        pass

    await settle(broker, refuse, recorded, until="quarantine security.dlq")
    scan = await scan_queue(broker, QUEUE + ".quarantine", now_s=0.0)
    plan = make_plan(scan, Knowledge(QUEUE, 0.0, 1.0), Ticks(may_duplicate=True))
    with open_journal(tmp_path / "journal", plan_sha256="0", now=lambda: 0.0) as journal:
        operator = Recorded()
        options = RedriveOptions(pace=Pace((1_000.0,)), observer=operator.observer)
        account = await redrive_plan(broker, plan, journal, options, stop=Shutdown())
    assert account.count("redriven") == 1
    (redriven,) = operator.spans
    assert (redriven.name, links(redriven)) == ("redrive security.dlq.quarantine", [PARENT])
    assert redriven.attributes["craig_mq.capture_id"] == plan.selected[0].key
    later = Recorded()
    await settle(broker, accept, later, until="ack security.dlq")
    assert links(later.spans[0]) == [PARENT]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        "x" * 100_000,
        b"\x00\xff",
        7,
        None,
        ["a"],
        "00-" + "0" * 32 + "-" + "0" * 16 + "-01",
        "ff" + TRACEPARENT[2:],
    ],
)
def test_hostile_trace_context_is_no_link(recorded, value) -> None:
    """Whatever stands where a traceparent should, the span has no link and nothing is raised."""
    from craig_mq.core.properties_json import properties_to_json

    document = properties_to_json(Properties(message_id="m", headers={"traceparent": value}))
    recorded.observer(ev.HandlerFinished(QUEUE, "ok", 0.1, 1, "e", None, lambda: document))
    (span,) = recorded.spans
    assert span.links == ()


def test_a_process_span_follows_the_conventions(recorded) -> None:
    """Its name, kind, times and attributes are those of the messaging conventions; an error is one."""
    recorded.observer(ev.HandlerFinished(QUEUE, "permanent", 1.5, 2, "e1", "ValueError"))
    (span,) = recorded.spans
    assert (span.name, span.kind, span.parent) == ("process security.dlq", SpanKind.CONSUMER, None)
    assert span.end_time - span.start_time == pytest.approx(1.5e9, rel=0.05)
    assert dict(span.attributes) == {
        "messaging.system": "rabbitmq",
        "messaging.destination.name": QUEUE,
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "craig_mq.envelope_id": "e1",
        "craig_mq.disposition": "permanent",
        "craig_mq.attempt": 2,
        "error.type": "ValueError",
    }
    assert span.status.status_code is StatusCode.ERROR


def test_settlements_are_children_of_what_they_settle(recorded) -> None:
    """Ack, park, quarantine and a failed settlement belong to the trace of their invocation."""
    observe = recorded.observer
    observe(ev.HandlerFinished(QUEUE, "ok", 0.1, 1, "e1"))
    observe(ev.DeliveryFinished(QUEUE, "acked", False, envelope_id="e1"))
    observe(ev.DeliveryFinished(QUEUE, "parked", False, envelope_id="e1"))
    observe(ev.Quarantined(QUEUE, "e1", "c1", "permanent", QUEUE + ".quarantine"))
    observe(ev.SettlementFailure(QUEUE, "main", "nacked", QUEUE + ".parking", "nack", "e1"))
    observe(ev.Quarantined(QUEUE, "unknown", "c2", "malformed", QUEUE + ".quarantine"))
    process, *settled, alone = recorded.spans
    assert [span.name for span in settled] == [
        "ack security.dlq",
        "quarantine security.dlq",
        "settle security.dlq",
    ]
    assert {span.parent.span_id for span in settled} == {process.context.span_id}
    assert {span.attributes["messaging.operation.type"] for span in settled} == {"settle"}
    assert (settled[2].attributes["error.type"], settled[2].status.status_code) == (
        "nacked",
        StatusCode.ERROR,
    )
    assert alone.parent is None


def test_what_is_remembered_is_bounded(recorded) -> None:
    """However many messages pass, the contexts of the last ten thousand are kept."""
    for n in range(REMEMBERED + 5):
        recorded.observer._processed[str(n)] = None
    assert len(recorded.observer._processed) == REMEMBERED


def test_nothing_is_imported_for_those_who_do_not_ask() -> None:
    """Without the observer no module of OpenTelemetry is loaded, not even by the service or the console."""
    code = (
        "import sys, craig_mq, craig_mq.service.recorder, craig_mq.console.server;"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
