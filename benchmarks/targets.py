"""What a run reached of the targets that are set: each with its figure, in the run's own words.

A target in microseconds was set for another machine. What a figure would be there is told by the bare
loops that both have run: what a message cost each of them in CPU time is known for either machine.
``python -m benchmarks.targets FILE...`` judges results again that were written before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.measurement import Measurement

REFERENCE = {"librabbitmq": 10.0, "pika": 49.0, "aio-pika-uvloop": 256.0, "aio-pika-asyncio": 279.0}
"""CPU µs a message of bare loops at prefetch 256 and 512 bytes on the machine the targets were set for."""

PYTHON_PEERS = ("pika", "py-amqp", "aio-pika-asyncio", "aio-pika-uvloop", "faststream")
SMALL = 512
_RATIOS = (
    ("park ÷ pika", 1.0, "pika"),
    ("park ÷ librabbitmq", 0.85, "librabbitmq"),
    ("park ÷ aio-pika on asyncio", 4.0, "aio-pika-asyncio"),
    ("park ÷ aio-pika transport", 10.0, "aio-pika-transport"),
)
_CPU = (
    ("core, µs an acked delivery", 25.0, ("core_settle", "memory")),
    ("core, µs a parked delivery", 45.0, ("core_park", "memory")),
    ("park, CPU µs a message", 80.0, ("park", "native")),
)


class Reached:
    """Looks figures up among a run's measurements and its other findings."""

    def __init__(self, measurements: list[Measurement], details: dict[str, Any]) -> None:
        """Judge these."""
        self._found = {(one.workload, one.client, one.prefetch, one.body_bytes): one for one in measurements}
        self._details = details

    def rows(self) -> list[dict[str, Any]]:
        """One row a target that this run measured."""
        return [*self._ratios(), *self._alone(), *self._one_by_one(), *self._cpu(), *self._idle()]

    def _rate(self, workload: str, client: str, prefetch: int = 256) -> float | None:
        one = self._found.get((workload, client, prefetch, SMALL))
        return None if one is None else one.msgs_per_s

    def _ratios(self) -> list[dict[str, Any]]:
        ours = self._rate("park", "native")
        return [
            _at_least(title, wanted, ours / theirs)
            for title, wanted, peer in _RATIOS
            if ours and (theirs := self._rate("park", peer))
        ]

    def _alone(self) -> list[dict[str, Any]]:
        settle, park = self._rate("settle", "native"), self._rate("park", "native")
        return [_at_least("settle ÷ park", 1.5, settle / park)] if settle and park else []

    def _one_by_one(self) -> list[dict[str, Any]]:
        """Prefetch 1: replaying against the best Python peer, and the time a message against pika's."""
        rows: list[dict[str, Any]] = []
        peers = [rate for peer in PYTHON_PEERS if (rate := self._rate("park", peer, 1))]
        replay, park, pika = (
            self._rate("replay", "native", 1),
            self._rate("park", "native", 1),
            self._rate("park", "pika", 1),
        )
        if replay and peers:
            rows.append(_at_least("replay ÷ best Python peer's park, prefetch 1", 1.0, replay / max(peers)))
        if park and pika:
            rows.append(_at_most("time a message ÷ pika's, prefetch 1", 1.2, pika / park))
        return rows

    def _cpu(self) -> list[dict[str, Any]]:
        speeds = {
            peer: there_us / one.cpu_us_per_msg
            for peer, there_us in REFERENCE.items()
            if (one := self._found.get(("park", peer, 256, SMALL)))
        }
        return [
            _at_most(f"{title}, Python {one.python}", wanted, one.cpu_us_per_msg, speeds)
            for title, wanted, (workload, client) in _CPU
            if (one := self._found.get((workload, client, 256, SMALL)))
        ]

    def _idle(self) -> list[dict[str, Any]]:
        idle = self._details.get("idle")
        if not idle:
            return []
        title = "KiB an idle subscription beyond its connections"
        return [_at_most(title, 60.0, idle["kib_each_beyond_its_connections"])]


def _at_least(title: str, wanted: float, reached: float) -> dict[str, Any]:
    return _row(title, f"≥ {wanted:g}", reached, met=reached >= wanted)


def _at_most(
    title: str, wanted: float, reached: float, speeds: dict[str, float] | None = None
) -> dict[str, Any]:
    row = _row(title, f"≤ {wanted:g}", reached, met=reached <= wanted)
    there = {peer: reached * speed for peer, speed in (speeds or {}).items()}
    row["at_the_reference_machine"] = "; ".join(f"{us:.0f} by {peer}" for peer, us in there.items())
    if there and reached > wanted:
        met = [peer for peer, us in there.items() if us <= wanted]
        row["met"] = "there" if len(met) == len(there) else f"there, by {', '.join(met)}" if met else "no"
    return row


def _row(title: str, wanted: str, reached: float, *, met: bool) -> dict[str, Any]:
    return {
        "target": title,
        "wanted": wanted,
        "reached": round(reached, 2),
        "at_the_reference_machine": "",
        "met": "yes" if met else "no",
    }


def judge_again(path: Path) -> None:
    """Write the targets of a results file anew, from its own figures."""
    found = json.loads(path.read_text())
    measurements = [Measurement(**row) for row in found["results"]]
    found["targets"] = Reached(measurements, found).rows()
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        judge_again(Path(name))
