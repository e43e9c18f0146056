"""A console on the embedded broker, asked in process; nothing here imports a bridge."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from craig_mq.console.app import console_app
from craig_mq.console.desk import open_desk
from craig_mq.console.settings import ConsoleSettings
from craig_mq.core.capture import CaptureOrder, build_capture
from craig_mq.core.capture_format import QuarantineReason, uuid7
from craig_mq.core.dead_letter import build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.core.last_error import LastError
from craig_mq.review.page.guard import loopback_hosts
from craig_mq.testing import MemoryBroker, envelope

QUEUE = "security.dlq"
QUARANTINE = QUEUE + ".quarantine"
PARKING = QUEUE + ".parking"
NOW_S = 1_800_000_000.0
PORT = 8660
OWN = {"Sec-Fetch-Site": "same-origin"}


class Ward:
    """A quarantine on an embedded broker, and captures as the runtime builds them."""

    queue, quarantine, now_s, port = QUEUE, QUARANTINE, NOW_S, PORT

    def __init__(self) -> None:
        self.built = 0
        self.broker = MemoryBroker(trace=True)
        self.broker.declare_exchange("craig.dlx")
        for name in (QUEUE, QUARANTINE, PARKING):
            self.broker.declare_queue(name, {"x-queue-type": "classic"})
        self.broker.bind("craig.dlx", QUEUE, "dlq.#")

    def capture(
        self,
        *,
        reason: QuarantineReason = QuarantineReason.PERMANENT,
        error: str = "column too long",
        age_s: float = 3_600.0,
        token: bool = True,
        body: bytes | None = None,
    ) -> bytes:
        """Return one capture's body."""
        self.built += 1
        more = {"_dlx": {"token": f"occ1:inbox:{self.built:032x}"}} if token else {}
        original = envelope({"n": self.built}, id=str(uuid.UUID(int=self.built)), **more)
        subject = build_dead_letter_delivery(
            Delivery(1, "craig.dlx", "dlq.svc.a", False, body or original), queue=QUEUE
        )
        order = CaptureOrder(
            capture_id=uuid7(int((NOW_S - age_s) * 1_000), self.built),
            fresh_id=str(uuid.UUID(int=1 << 100 | self.built)),
            at_s=NOW_S - age_s,
            attempts=3,
            reason=reason,
            last_error=LastError("ValueError", error, "0" * 64),
        )
        return build_capture(subject, order).body

    def fill(self, *bodies: bytes) -> tuple[bytes, ...]:
        """Put bodies into quarantine, in order."""
        for body in bodies:
            self.broker.publish("", QUARANTINE, body)
        return bodies

    @property
    def quarantined(self) -> tuple[bytes, ...]:
        """What is ready in quarantine, head first."""
        return self.broker.queue(QUARANTINE).bodies


class Client:
    """The page's own way to ask, in process."""

    def __init__(self, desk: Any, token: str, http: httpx.AsyncClient) -> None:
        self.desk, self.token, self.http = desk, token, http

    async def ask(self, name: str, *, status: int = 200, **body: Any) -> Any:
        """POST to the API and expect a status."""
        answer = await self.http.post(f"/api/{name}", json=body, headers=OWN)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def look(self, name: str, *, status: int = 200) -> Any:
        """GET from the API and expect a status."""
        answer = await self.http.get(f"/api/{name}")
        assert answer.status_code == status, answer.text
        return answer.json()

    async def open(self) -> Client:
        """Exchange the token for the cookie, and return itself."""
        await self.ask("session", token=self.token)
        return self


@pytest.fixture
def ward() -> Ward:
    """An empty quarantine."""
    return Ward()


@pytest.fixture
def console(ward: Ward, tmp_path: Path):
    """Open a console on the ward for the length of a block; keywords are settings."""

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncGenerator[Client, None]:
        known = {
            "queue": QUEUE,
            "folder": tmp_path / "console",
            "who": "olga@host",
            "hot_window_s": 86_400.0,
            "now": lambda: NOW_S,
            **settings,
        }
        async with open_desk(ward.broker, ConsoleSettings(**known)) as desk:
            app, token = console_app(desk, hosts=loopback_hosts(PORT), port=PORT)
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as http:
                yield Client(desk, token, http)

    return opened
