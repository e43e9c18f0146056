"""Runs seeds in processes of their own: one that dies or never ends costs its seed and nothing else.

A worker is forked, so it starts at once and what it leaves behind ends with it; only plain data comes
back, run by run, so that the parent always knows which seed a worker is at and since when.
"""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any, Final, TypeVar

import attrs

from craig_mq.testing.simulate.summary import Broken

PATIENCE_S: Final = 120.0  # real time; a run takes a twentieth of a second
_CHUNK: Final = 500  # seeds per worker: nothing collects its garbage but its end
_LOOK_S: Final = 1.0
_FORK: Final = multiprocessing.get_context("fork")

T = TypeVar("T")


@attrs.define(slots=True)
class _Worker:
    """One process, and the seeds it has not answered for: it is at the first of them."""

    process: ForkProcess
    news: Connection
    seeds: deque[int]
    heard_at: float

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.join()
        self.news.close()


def in_processes(
    run: Callable[[int], T], seeds: Sequence[int], jobs: int, *, until: float, patience_s: float = PATIENCE_S
) -> Iterator[T | Broken]:
    """Yield what ``run`` returns for each seed (plain data) as it comes, from ``jobs`` processes at a time.

    A seed without a result is ``Broken``: its run raised, killed its process, or took longer than
    ``patience_s`` of real time. What is not done at ``until`` (of ``time.monotonic``) is left out. This
    forks: call it from a process of one thread.
    """
    waiting = deque(deque(seeds[at : at + _CHUNK]) for at in range(0, len(seeds), _CHUNK))
    workers: dict[Connection, _Worker] = {}
    try:
        while True:
            while waiting and len(workers) < jobs and time.monotonic() < until:
                worker = _started(run, waiting.popleft())
                workers[worker.news] = worker
            if not workers:
                return
            multiprocessing.connection.wait(list(workers), timeout=_LOOK_S)
            for worker in list(workers.values()):
                yield from _heard(worker, patience_s, until)
                if worker.news.closed:
                    del workers[worker.news]
                    if worker.seeds:
                        waiting.appendleft(worker.seeds)
    finally:
        for worker in workers.values():
            worker.close()


def _started(run: Callable[[int], object], seeds: deque[int]) -> _Worker:
    news, outlet = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_work, args=(run, tuple(seeds), outlet), daemon=True)
    process.start()
    outlet.close()  # so that the worker's death is the end of the pipe
    return _Worker(process, news, seeds, time.monotonic())


def _heard(worker: _Worker, patience_s: float, until: float) -> Iterator[Any]:
    """Yield what a worker reports; close it once it is done, dead, stuck, or past the time."""
    try:
        while worker.news.poll():
            yield worker.news.recv()
            worker.seeds.popleft()
            worker.heard_at = time.monotonic()
    except (EOFError, OSError):
        worker.process.join(_LOOK_S)
        if worker.seeds:
            yield Broken(worker.seeds.popleft(), f"its process died: exit code {worker.process.exitcode}")
        worker.close()
        return
    now = time.monotonic()
    if now - worker.heard_at > patience_s:
        if worker.seeds:  # else it has answered for all of them, and only fails to end
            yield Broken(worker.seeds.popleft(), f"it did not end within {patience_s:g} s of real time")
        worker.close()
    elif now >= until:
        worker.seeds.clear()
        worker.close()


def _work(run: Callable[[int], object], seeds: tuple[int, ...], news: Connection) -> None:
    """Be a worker: run seed by seed and send each result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    gc.disable()
    for seed in seeds:
        try:
            result = run(seed)
        except Exception as error:  # noqa: BLE001 - whatever it is, it may not be picklable
            result = Broken(seed, repr(error))
        news.send(result)
