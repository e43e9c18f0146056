"""A quarantine to work on: captures built as the runtime builds them, on the embedded broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pytest

from craig_mq.core.capture import CaptureOrder, build_capture
from craig_mq.core.capture_format import QuarantineReason, uuid7
from craig_mq.core.dead_letter import build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.core.disposition import Disposition
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.last_error import LastError
from craig_mq.core.unwrap import Capture, read_capture
from craig_mq.testing import MemoryBroker, envelope

QUEUE = "security.dlq"
QUARANTINE = QUEUE + ".quarantine"
PARKING = QUEUE + ".parking"
NOW_S = 1_800_000_000.0


class Ward:
    """Builds captures and reads them back; numbers them so that order can be seen."""

    queue, quarantine, parking, now_s = QUEUE, QUARANTINE, PARKING, NOW_S

    def __init__(self) -> None:
        self.built = 0

    def capture(
        self,
        *,
        key: str = "dlq.svc.a",
        body: bytes | None = None,
        reason: QuarantineReason | None = QuarantineReason.PERMANENT,
        error: str = "column too long",
        token: bool = True,
        age_s: float = 3_600.0,
        parks: int = 0,
        event_type: str = "invoice.failed",
    ) -> bytes:
        """Return the body of one capture, as the runtime would have published it."""
        self.built += 1
        envelope_id = str(uuid.UUID(int=self.built))
        more = {} if not token else {"_dlx": {"token": f"occ1:inbox:{self.built:032x}"}}
        original = envelope({"n": self.built}, id=envelope_id, event_type=event_type, **more)
        subject = build_dead_letter_delivery(
            Delivery(1, "craig.dlx", key, False, original if body is None else body), queue=QUEUE
        )
        at_s = NOW_S - age_s
        order = CaptureOrder(
            capture_id=uuid7(int(at_s * 1_000), self.built),
            fresh_id=str(uuid.UUID(int=1 << 100 | self.built)),
            at_s=at_s,
            attempts=1,
            reason=reason,
            disposition=Disposition.PERMANENT,
            last_error=LastError("ValueError", error, "0" * 64),
        )
        return build_capture(subject, order).body

    def malformed(self, raw: bytes = b"\xff not json") -> bytes:
        """Return a capture of a body that cannot be read."""
        return self.capture(body=raw, reason=QuarantineReason.MALFORMED)

    @staticmethod
    def read(body: bytes) -> Capture:
        """Read a capture's body."""
        capture = read_capture(decode_envelope(body))
        assert isinstance(capture, Capture), capture
        return capture

    def ids(self, bodies: Sequence[bytes]) -> list[str]:
        """Return the capture ids of these bodies."""
        return [self.read(body).capture_id for body in bodies]


@pytest.fixture
def ward() -> Iterator[Ward]:
    """Captures for the queue security.dlq."""
    return Ward()


@pytest.fixture
def broker() -> MemoryBroker:
    """An embedded broker with the subscription's topology, bound to dlq.#."""
    broker = MemoryBroker(trace=True)
    broker.declare_exchange("craig.dlx")
    for name in (QUEUE, QUARANTINE, PARKING):
        broker.declare_queue(name, {"x-queue-type": "classic"})
    broker.bind("craig.dlx", QUEUE, "dlq.#")
    return broker


@pytest.fixture
def fill(broker: MemoryBroker):
    """Put bodies into quarantine in order, and return them."""

    def put(*bodies: bytes, queue: str = QUARANTINE) -> tuple[bytes, ...]:
        for body in bodies:
            broker.publish("", queue, body)
        return bodies

    return put
