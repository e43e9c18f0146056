"""How long building a capture takes as its body grows: one JSON object, microseconds by body size.

``python -m benchmarks.own.capture``; the sizes go up to the largest capture there is.
"""

from __future__ import annotations

import json
import time
import uuid

from benchmarks.filling import envelope
from craig_mq.core.capture import CaptureOrder, build_capture
from craig_mq.core.dead_letter import build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.runtime.sources import system_uuid7

SIZES = [1024 * 4**step for step in range(7)] + [11 * 1024 * 1024, 12 * 1024 * 1024]
MEASURE_S = 0.4


def microseconds(body_bytes: int) -> float:
    """CPU time of one read and one capture of a body of this size."""
    delivery = Delivery(1, "craig.dlx", "dlq.bench", False, envelope(body_bytes))
    runs, began = 0, time.process_time()
    while (spent := time.process_time() - began) < MEASURE_S or not runs:
        subject = build_dead_letter_delivery(delivery, queue="bench.dlq")
        identity = system_uuid7()
        build_capture(subject, CaptureOrder(identity, str(uuid.UUID(int=1)), time.time()))
        runs += 1
    return spent / runs * 1e6


if __name__ == "__main__":
    print(json.dumps([{"body_bytes": size, "cpu_us": round(microseconds(size), 1)} for size in SIZES]))
