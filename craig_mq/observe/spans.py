"""Events as OpenTelemetry spans, after the messaging conventions; only for those who ask for it.

Needs the extra ``otel``. A *process* span covers one invocation of the handler and carries its disposition;
*settle* spans (ack, park, quarantine, return) are its children, and an operator's *redrive* stands alone.
Process and redrive spans link to the message's producer, whose ``traceparent`` header every capture carries
in its original properties, so the links hold over any number of parks and redrives, in whatever process;
a process span also links to the return that brought it back here.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from craig_mq.core.config import PARKING_SUFFIX
from craig_mq.core.properties_json import headers_from_json
from craig_mq.observe import events as ev

REMEMBERED: Final = 10_000
_NS: Final = 1_000_000_000
_MAX_HEADER: Final = 512
_TRACE_HEADERS: Final = ("traceparent", "tracestate")
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class Spans:
    """An Observer that makes spans. ``provider`` None is the process's global one.

    It remembers the contexts of the last 10,000 messages. ``now`` gives nanoseconds since the Unix epoch.
    """

    def __init__(self, provider: TracerProvider | None = None, now: Callable[[], int] = time.time_ns) -> None:
        self._tracer = trace.get_tracer("craig_mq", tracer_provider=provider)
        self._now = now
        self._processed = _Memory()
        self._parked = _Memory()
        self._returned = _Memory()

    def __call__(self, event: ev.Event) -> None:
        """Make a span of an event that stands for one."""
        match event:
            case ev.HandlerFinished():
                self._process(event)
            case ev.DeliveryFinished(outcome="acked", envelope_id=envelope_id):
                self._settle(event.queue, "ack", envelope_id)
            case ev.Parked(envelope_id=envelope_id, capture_id=capture_id):
                found = {"craig_mq.capture_id": capture_id, "craig_mq.park_count": event.park_count}
                self._parked[capture_id] = self._settle(event.queue, "park", envelope_id, found)
            case ev.Quarantined(envelope_id=envelope_id, capture_id=capture_id):
                found = {"craig_mq.capture_id": capture_id, "craig_mq.reason": event.reason}
                self._settle(event.queue, "quarantine", envelope_id, found)
            case ev.ParkedReturned():
                self._return(event)
            case ev.Redriven(envelope_id=envelope_id, capture_id=capture_id):
                producer = _producer(event)
                links = () if producer is None else (Link(producer),)
                found = {"craig_mq.capture_id": capture_id}
                self._settle(event.queue, "redrive", envelope_id, found, links=links, alone=True)
            case ev.SettlementFailure(envelope_id=envelope_id):
                found = {"craig_mq.arm": event.arm}
                self._settle(event.queue, "settle", envelope_id, found, error_type=event.stage)
            case _:
                pass

    def _process(self, event: ev.HandlerFinished) -> None:
        back = self._returned.get(event.envelope_id)
        links = [Link(context) for context in (_producer(event), back) if context is not None]
        span = self._tracer.start_span(
            f"process {event.queue}",
            context=trace.set_span_in_context(trace.INVALID_SPAN),
            kind=SpanKind.CONSUMER,
            attributes=_attributes(event.queue, "process", "process", event.envelope_id)
            | {"craig_mq.disposition": event.disposition, "craig_mq.attempt": event.attempt},
            links=links,
            start_time=self._now() - round(event.seconds * _NS),
        )
        if event.error_type is not None:
            span.set_attribute("error.type", event.error_type)
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._now())
        self._processed[event.envelope_id] = span.get_span_context()

    def _return(self, event: ev.ParkedReturned) -> None:
        parked = self._parked.get(event.capture_id)
        found = {"craig_mq.capture_id": event.capture_id, "craig_mq.waited_s": event.waited_s}
        links = () if parked is None else (Link(parked),)
        queue = event.queue + PARKING_SUFFIX
        self._returned[event.envelope_id] = self._settle(
            queue, "return", event.envelope_id, found, links=links, alone=True
        )

    def _settle(
        self,
        queue: str,
        operation: str,
        envelope_id: str | None,
        found: dict[str, Any] | None = None,
        *,
        links: Sequence[Link] = (),
        alone: bool = False,
        error_type: str | None = None,
    ) -> SpanContext:
        """One settlement, at the moment it was written; a child of its invocation, or ``alone``."""
        parent = None if alone or envelope_id is None else self._processed.get(envelope_id)
        over = trace.INVALID_SPAN if parent is None else trace.NonRecordingSpan(parent)
        at = self._now()
        span = self._tracer.start_span(
            f"{operation} {queue}",
            context=trace.set_span_in_context(over),
            kind=SpanKind.CLIENT,
            attributes=_attributes(queue, "settle", operation, envelope_id) | (found or {}),
            links=links,
            start_time=at,
        )
        if error_type is not None:
            span.set_attribute("error.type", error_type)
            span.set_status(Status(StatusCode.ERROR))
        span.end(at)
        return span.get_span_context()


class _Memory(OrderedDict[str, SpanContext]):
    """The contexts of the last so many keys."""

    def __setitem__(self, key: str, context: SpanContext) -> None:
        super().__setitem__(key, context)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


def _attributes(queue: str, kind: str, operation: str, envelope_id: str | None) -> dict[str, Any]:
    known: dict[str, Any] = {
        "messaging.system": "rabbitmq",
        "messaging.destination.name": queue,
        "messaging.operation.type": kind,
        "messaging.operation.name": operation,
    }
    return known if not envelope_id else known | {"craig_mq.envelope_id": envelope_id}


def _producer(event: ev.HandlerFinished | ev.Redriven) -> SpanContext | None:
    """The producer's context out of the original's headers; None for whatever is no traceparent."""
    if event.original_properties is None:
        return None
    headers = headers_from_json(event.original_properties())
    carrier = {
        name: value
        for name in _TRACE_HEADERS
        if isinstance(value := headers.get(name), str) and len(value) <= _MAX_HEADER
    }
    context = trace.get_current_span(_PROPAGATOR.extract(carrier)).get_span_context()
    return context if context.is_valid else None
