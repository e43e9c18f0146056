"""A quarantine to work on: captures built as the runtime builds them, on the embedded broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from craig_mq.core.capture import CaptureOrder, build_capture
from craig_mq.core.capture_format import QuarantineReason, uuid7
from craig_mq.core.dead_letter import build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.core.disposition import Disposition
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.last_error import LastError
from craig_mq.core.unwrap import Capture, read_capture
from craig_mq.operator.account import Account
from craig_mq.operator.journal import open_journal
from craig_mq.operator.pace import Pace
from craig_mq.operator.plan import Plan, Ticks, make_plan
from craig_mq.operator.redrive import RedriveOptions, redrive_plan
from craig_mq.operator.scan import scan_queue
from craig_mq.operator.verdict import Knowledge
from craig_mq.operator.where import parse_where
from craig_mq.testing import MemoryBroker, envelope
from supervisors.shutdown import Shutdown

QUEUE = "security.dlq"
QUARANTINE = QUEUE + ".quarantine"
PARKING = QUEUE + ".parking"
NOW_S = 1_800_000_000.0
ALL_TICKED = Ticks(may_duplicate=True)


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


class Desk:
    """An operator at work on one broker: plan, journal, redrive."""

    def __init__(self, broker: MemoryBroker, ward: Ward, folder: Path) -> None:
        self.broker, self.ward, self.folder = broker, ward, folder
        self.fast = RedriveOptions(pace=Pace((1_000.0,)))

    async def plan(self, *where: str, ticks: Ticks = ALL_TICKED, **knowledge: object) -> Plan:
        """Scan and judge; everything redrivable is ticked unless said otherwise."""
        scan = await scan_queue(self.broker, QUARANTINE, parse_where(where), now_s=NOW_S)
        known = Knowledge(**{"queue": QUEUE, "now_s": NOW_S, "hot_window_s": 86_400.0, **knowledge})
        return make_plan(scan, known, ticks, where=where, made_by="test")

    async def redrive(
        self,
        plan: Plan,
        *,
        journal: str = "journal",
        options: RedriveOptions | None = None,
        stop: Shutdown | None = None,
    ) -> Account:
        """Redrive a plan with the journal of that name."""
        with open_journal(self.folder / journal, plan_sha256="0" * 64, now=lambda: NOW_S) as opened:
            return await redrive_plan(
                self.broker, plan, opened, options or self.fast, stop=stop or Shutdown()
            )

    @property
    def quarantined(self) -> tuple[bytes, ...]:
        """What is ready in quarantine, head first."""
        return self.broker.queue(QUARANTINE).bodies

    @property
    def redriven(self) -> list[str]:
        """The capture ids in the dead-letter queue, head first."""
        return self.ward.ids(self.broker.queue(QUEUE).bodies)


@pytest.fixture
def desk(broker: MemoryBroker, ward: Ward, tmp_path: Path) -> Desk:
    """An operator at the embedded broker."""
    return Desk(broker, ward, tmp_path)
