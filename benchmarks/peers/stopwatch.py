"""What every loop measures: wall time, the process's own CPU time and its peak memory, printed as JSON."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One measurement: move ``count`` messages from ``source`` to ``target``."""

    url: str
    source: str
    target: str
    count: int
    prefetch: int

    @classmethod
    def from_arguments(cls) -> Task:
        """Read the five positional arguments."""
        url, source, target, count, prefetch = sys.argv[1:6]
        return cls(url, source, target, int(count), int(prefetch))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Stopwatch:
    """Started before the consume, stopped after the last ack was written."""

    def __init__(self) -> None:
        """Start. What stands by then is no garbage: a service freezes it once it is up (how-to, deploy)."""
        gc.collect()
        gc.freeze()
        self.restart()

    def restart(self) -> None:
        """Forget what has passed so far."""
        self._wall = time.perf_counter()
        self._cpu = _cpu()

    def report(self) -> None:
        """Print the measurement as one line of JSON."""
        seconds, cpu_seconds = time.perf_counter() - self._wall, _cpu() - self._cpu
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        measured = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_kib": peak_kib}
        print(json.dumps(measured), flush=True)
