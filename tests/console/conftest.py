"""A console on the embedded broker, asked in process; nothing here imports a bridge."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from craig_mq.console.app import console_app
from craig_mq.console.desk import open_desk
from craig_mq.console.settings import ConsoleSettings
from craig_mq.core.capture_format import QuarantineReason
from craig_mq.review.page.guard import loopback_hosts
from craig_mq.testing import MemoryBroker
from craig_mq.testing.captures import original, quarantined

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
        """Return the next capture's body."""
        self.built += 1
        return quarantined(
            self.built,
            NOW_S - age_s,
            original(self.built, token=token) if body is None else body,
            queue=QUEUE,
            routing_key="dlq.svc.a",
            reason=reason,
            attempts=3,
            error=("ValueError", error),
        )

    def malformed(self) -> bytes:
        """Return a capture of a body that cannot be read."""
        return self.capture(body=b"\xff", reason=QuarantineReason.MALFORMED)

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

    def __init__(self, desk: Any, app: Any, token: str, http: httpx.AsyncClient) -> None:
        self.desk, self.app, self.token, self.http = desk, app, token, http

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
                yield Client(desk, app, token, http)

    return opened
