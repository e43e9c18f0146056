"""A console in a process of its own, over an embedded broker with a running service and a filled quarantine.

    python embedded_console.py FOLDER PORT [OPTION…]     options: read-only, no-ledger, many

Prints the console's address. The service records what is redriven, so a redrive's effects can be seen.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import trio
from prometheus_client import CollectorRegistry

from craig_mq import DlqRetryConfig, SubscriptionOptions, subscribe_dlq
from craig_mq.audit import open_store, record
from craig_mq.console.server import serve_console
from craig_mq.console.settings import ConsoleSettings
from craig_mq.core.capture_format import QuarantineReason
from craig_mq.review.page.listener import bind_loopback
from craig_mq.service.health import health_app, serve_health
from craig_mq.service.pulse import Pulse
from craig_mq.service.status import Gauges, status_of
from craig_mq.testing import MemoryBroker
from craig_mq.testing.captures import original, quarantined

QUEUE = "security.dlq"
QUARANTINE = QUEUE + ".quarantine"
LONG = "amount: {n} characters do not fit column amount(12)"
SLOW = "ledger did not answer within {n} ms"
PERMANENT, CAPPED = QuarantineReason.PERMANENT, QuarantineReason.PARK_CAP_EXHAUSTED
KINDS = (
    (34, "invoice.created", "billing", PERMANENT, ("ValueError", LONG)),
    (14, "login.failed", "identity", CAPPED, ("TimeoutError", SLOW)),
    (7, "card.blocked", "payments", PERMANENT, ("LookupError", "no customer {n}")),
)
RECORDED = 5
HOSTILE = '<img src=x onerror="document.title=1">'


def filling(now_s: float) -> Iterator[bytes]:
    """Yield quarantined captures of several kinds, malformed and foreign ones among them."""
    numbers = itertools.count(1)
    for count, event_type, service, reason, (kind, text) in KINDS:
        for _ in range(count):
            n = next(numbers)
            body = original(n, event_type=event_type, source_service=service, token=n % 9 != 0)
            yield quarantined(
                n,
                now_s - 400.0 * n,
                body,
                queue=QUEUE,
                routing_key=f"dlq.{service}",
                reason=reason,
                attempts=1 + n % 4,
                error=(kind, text.format(n=10 + n)),
            )
    for n in itertools.islice(numbers, 3):
        yield quarantined(
            n, now_s - 9_000.0, b"\xff\xfe not json", queue=QUEUE, reason=QuarantineReason.MALFORMED,
            error=("MalformedBody", f"invalid UTF-8 at byte {n} {HOSTILE}"),
        )  # fmt: skip


async def main(folder: Path, port: int, options: frozenset[str]) -> None:
    """Serve until SIGTERM."""
    now_s = time.time()
    broker, gauges, audit = MemoryBroker(), Gauges(), f"sqlite:///{folder}/audit.db"
    settings = partial(
        ConsoleSettings,
        queue=QUEUE,
        folder=folder / "console",
        who="olga@operations",
        hot_window_s=30 * 86_400.0,
        audit_url=None if "no-ledger" in options else audit,
        allow_redrive="read-only" not in options,
    )
    async with open_store(audit) as store, trio.open_nursery() as nursery:
        subscription = await nursery.start(
            partial(
                subscribe_dlq,
                broker,
                queue=QUEUE,
                handler=record(store),
                config=DlqRetryConfig(depth_sample_interval=1),
                options=SubscriptionOptions(),
                observer=gauges,
            )
        )
        bodies = list(filling(now_s))
        for n in range(1, RECORDED + 1):
            broker.publish(
                "craig.dlx",
                "dlq.billing",
                original(n, event_type="invoice.created", source_service="billing"),
            )
        for body in bodies * (12 if "many" in options else 1):
            broker.publish("", QUARANTINE, body)
        pulse = Pulse(lambda: status_of(subscription, gauges))
        nursery.start_soon(pulse.run)
        with serve_health("127.0.0.1", 0, health_app(CollectorRegistry(), pulse.read)) as service_port:
            await serve_console(
                broker,
                settings(service=f"127.0.0.1:{service_port}"),
                bind_loopback(port),
                partial(print, flush=True),
            )
        subscription.shutdown()
        nursery.cancel_scope.cancel(reason="the console has ended")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), frozenset(sys.argv[3:]))
