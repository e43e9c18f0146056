"""Where the microseconds of a parked delivery go: each step alone, warm, by CPU time.

``python -m benchmarks.own.steps`` prints one JSON array. Between the steps lie the calls of the runtime,
Trio's scheduling and the kernel's share, which only the whole shows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from benchmarks.filling import envelope
from craig_mq.core.capture import BuiltCapture, CaptureOrder, build_capture
from craig_mq.core.dead_letter import DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Delivery, Properties
from craig_mq.core.disposition import Disposition, DlqError, disposition_of
from craig_mq.core.last_error import LastError, describe_error
from craig_mq.core.machine import Settlement
from craig_mq.core.outcome import ACK_WRITTEN, ACKED
from craig_mq.core.policy import PolicyFacts
from craig_mq.core.steps import Begin, Confirmed, HandlerFailed, Settled
from craig_mq.runtime.publication import capture_publication
from craig_mq.runtime.sources import SYSTEM_SOURCES
from craig_mq.transport.native.properties import decode_properties, encode_header

QUEUE = "bench.dlq"
AT_ONCE, ROUNDS = 200, 100
PROPERTIES = Properties(
    content_type="application/json", delivery_mode=2, message_id="6f0b7f2c-6a53-4a41-8a3f-0a8a2e1f5b77"
)
DELIVERY = Delivery(1, "craig.dlx", "dlq.bench", False, envelope(512), PROPERTIES)


def read() -> DeadLetterDelivery:
    """Envelope, token, death."""
    subject = build_dead_letter_delivery(DELIVERY, queue=QUEUE)
    if not isinstance(subject, DeadLetterDelivery):
        raise TypeError("the benchmark's own envelope is malformed")
    return subject


def fail() -> LastError:
    """A handler's exception, caught and described."""
    try:
        raise DlqError(Disposition.TRANSIENT_PARK, source=ValueError("down"))  # noqa: TRY301 - its cost is measured
    except DlqError as error:
        disposition_of(error)
        return describe_error(error)


def decide(error: LastError, capture: BuiltCapture) -> None:
    """The four transitions of a parked delivery."""
    settlement = Settlement(PolicyFacts(3, 12, 0, True))
    settlement.feed(Begin())
    settlement.feed(HandlerFailed(Disposition.TRANSIENT_PARK, error, 0.5))
    settlement.feed(Confirmed(ACKED, capture.kind))
    settlement.feed(Settled(ACK_WRITTEN))


def capture(subject: DeadLetterDelivery, error: LastError) -> BuiltCapture:
    """The capture's bytes, id and instant."""
    identity = SYSTEM_SOURCES.uuid7()
    return build_capture(
        subject,
        CaptureOrder(identity, identity, SYSTEM_SOURCES.now(), 1, None, Disposition.TRANSIENT_PARK, error),
    )


def publish(built: BuiltCapture) -> bytes:
    """The publication's properties and their header."""
    publication = capture_publication(
        "", f"{QUEUE}.parking", built.body, SYSTEM_SOURCES, message_id=built.capture_id
    )
    return encode_header(publication.properties, len(publication.body))


def microseconds(step: Callable[[], object]) -> float:
    """The least CPU time of one call, over many rounds of many calls."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(AT_ONCE):
            step()
        least = min(least, (time.thread_time() - began) / AT_ONCE * 1e6)
    return round(least, 2)


def measure() -> list[dict[str, object]]:
    """One row a step."""
    subject, error = read(), fail()
    built = capture(subject, error)
    header = encode_header(PROPERTIES, len(DELIVERY.body))
    steps: dict[str, Callable[[], object]] = {
        "decode the properties": lambda: decode_properties(header),
        "read the envelope": read,
        "catch and describe the failure": fail,
        "decide: four transitions": lambda: decide(error, built),
        "build the capture": lambda: capture(subject, error),
        "make the publication and its header": lambda: publish(built),
    }
    return [{"step": name, "cpu_us": microseconds(step)} for name, step in steps.items()]


if __name__ == "__main__":
    print(json.dumps(measure()))
