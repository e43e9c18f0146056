"""What a running service says of itself, as one immutable document."""

from __future__ import annotations

from typing import Any, Final

import attrs
import trio

from craig_mq.observe import events as ev
from craig_mq.runtime.handle import DlqSubscription
from supervisors.tree import to_json


@attrs.define(frozen=True, slots=True)
class Status:
    """``ready`` is true while both sessions consume; ``document`` is plain JSON data."""

    ready: bool
    document: dict[str, Any]


SHOWN_COUNTERS: Final = (
    "acked",
    "parked",
    "returned",
    "quarantined",
    "duplicates_absorbed",
    "settlement_failures",
    "sessions",
)
"""The counters of ``statistics`` that a view of a service shows, in this order."""

STARTING = Status(ready=False, document={"state": "starting"})


class Gauges:
    """An Observer that remembers the latest depths and the age of the parking queue's head."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.depths: dict[str, int | None] = {}
        self.oldest_parked_s: float | None = None

    def __call__(self, event: ev.Event) -> None:
        """Remember one sample."""
        match event:
            case ev.DepthSampled(sampled=sampled, ready=ready):
                self.depths[sampled] = ready
            case ev.OldestParked(seconds=seconds):
                self.oldest_parked_s = seconds
            case _:
                pass


def status_of(subscription: DlqSubscription, gauges: Gauges) -> Status:
    """Describe ``subscription`` as it stands; called on the loop, read from any thread.

    ``clock_s`` is the clock that the tree's times are on, so that a reader can tell how long ago they were.
    ``held`` counts deliveries this service holds unacked; beside them its parking arm holds one at most.
    """
    snapshot, statistics = subscription.snapshot(), subscription.statistics()
    ready = snapshot.main.consuming and snapshot.parking.consuming and not snapshot.closed
    document = {
        "state": "closed" if snapshot.closed else "ready" if ready else "recovering",
        "queue": snapshot.queue,
        "clock_s": trio.current_time(),
        "arms": {"main": attrs.asdict(snapshot.main), "parking": attrs.asdict(snapshot.parking)},
        "depths": dict(gauges.depths),
        "held": {snapshot.queue: statistics.in_flight},
        "oldest_parked_s": gauges.oldest_parked_s,
        "statistics": attrs.asdict(statistics),
        "tree": to_json(snapshot.tree),
    }
    return Status(ready, document)
