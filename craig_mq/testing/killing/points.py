"""Kills the process of one path at one of its awaits, lets others follow, and accounts for the letter.

Processes are forked from a server that has imported everything and runs nothing, so a kill costs
little more than the path itself.
"""

from __future__ import annotations

import base64
import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import attrs
import trio

from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.testing.dead_letters import envelope
from craig_mq.testing.killing.process import KILLED, QUEUE, Errand, live
from craig_mq.transport.broker import Broker, Channel, ConnectionOptions
from craig_mq.transport.opening import open_broker

PARKING: Final = QUEUE + ".parking"
QUARANTINE: Final = QUEUE + ".quarantine"
PATHS: Final = ("ok", "retry", "park", "replay", "quarantine", "malformed")
MAX_LIVES: Final = 5
ID: Final = "51a70000-0000-4000-8000-00000000dead"
_MALFORMED: Final = b"\xffno envelope"
_TOKEN: Final = "occ1:inbox:" + "de" * 16  # an occurrence token, no secret


class KillFailed(Exception):
    """A process ended in a way that nobody planned, or the letter never came to rest."""


@attrs.define(frozen=True, slots=True)
class Death:
    """What was found after one kill. ``killed`` is False where the path ended before that step.

    ``kept``: right after the death, and at the end, the letter was in a queue or in the ledger.
    ``rows`` and ``copies`` count its audit rows and its captures in quarantine at the end.
    """

    killed: bool
    kept: bool
    rows: int
    copies: int

    def conserved(self, path: str) -> bool:
        """Whether the letter is, exactly, where its path leads; a kill may quarantine it once more."""
        if path in ("quarantine", "malformed"):
            return self.kept and self.rows == 0 and 1 <= self.copies <= 2  # noqa: PLR2004 - as said
        return self.kept and self.rows == 1 and self.copies == 0


@attrs.define(frozen=True, slots=True)
class Place:
    """A virtual host and a ledger of the point's own."""

    url: str
    ledger: Path

    def steps(self, path: str) -> int:
        """Take the path without a kill; return how many steps there are to die at."""
        self._prepare(path)
        steps = _process(self._errand(path))
        if steps is None:
            raise KillFailed(f"{path}: killed without being asked to be")
        return steps

    def die(self, path: str, step: int) -> Death:
        """Take the path, die at a step, and let further processes do what is left."""
        self._prepare(path)
        killed = _process(attrs.evolve(self._errand(path), kill_at=step)) is None
        left, copies = trio.run(_look, self.url)
        kept = bool(left or copies or self._rows())
        lives = 1
        while left:
            lives += 1
            if lives > MAX_LIVES or _process(self._errand(path)) is None:
                raise KillFailed(f"{path}, step {step}: {left} left after {lives} lives")
            left, copies = trio.run(_look, self.url)
        return Death(killed, kept, self._rows(), copies)

    def _errand(self, path: str) -> Errand:
        until = "quarantined" if path in ("quarantine", "malformed") else "acked"
        return Errand(self.url, str(self.ledger), path, until)

    def _prepare(self, path: str) -> None:
        """Publish the letter; for a replay, let a first process park it."""
        self.ledger.unlink(missing_ok=True)
        trio.run(_publish, self.url, _MALFORMED if path == "malformed" else _letter())
        if path == "replay":
            _process(attrs.evolve(self._errand("park"), until="parked"))

    def _rows(self) -> int:
        if not self.ledger.exists():
            return 0
        with closing(sqlite3.connect(self.ledger)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'occurrence'").fetchone():
                return 0
            [count] = database.execute("SELECT count(*) FROM occurrence").fetchone()
        return int(count)


def _letter() -> bytes:
    dlx = {
        "token": _TOKEN,
        "queue": "q",
        "reason": "handler",
        "failed_at": "2026-01-02T03:04:05Z",
        "error": "e",
    }
    return envelope(id=ID, _dlx=dlx)


def _process(errand: Errand) -> int | None:
    """Run a process to its end; return its steps, None where it was killed. Raises KillFailed."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([live.__module__])
    receiving, sending = server.Pipe(duplex=False)
    process = server.Process(target=live, args=(errand, sending))
    process.start()
    sending.close()
    process.join()
    with receiving:
        if process.exitcode == KILLED:
            return None
        if process.exitcode != 0:
            raise KillFailed(f"{errand}: exit code {process.exitcode}")
        return int(receiving.recv())


async def _publish(url: str, body: bytes) -> None:
    async with open_broker(url) as broker, broker.connect(ConnectionOptions("producer")) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_exchange(ExchangeSpec("craig.dlx", "topic"))
        await channel.declare_queue(QueueSpec(QUEUE, arguments={"x-queue-type": "classic"}))
        await channel.bind_queue(BindingSpec("craig.dlx", QUEUE, "dlq.#"))
        for queue in (PARKING, QUARANTINE):
            await channel.declare_queue(QueueSpec(queue, arguments={"x-queue-type": "classic"}))
            await channel.purge_queue(queue)
        await channel.purge_queue(QUEUE)
        properties = Properties(message_id=ID, delivery_mode=PERSISTENT)
        outcome = await channel.publish(Publication("craig.dlx", "dlq.killed", body, properties))
        if not isinstance(outcome, Acked):
            raise KillFailed(f"the letter was not confirmed: {outcome}")
        await connection.aclose()


async def _look(url: str) -> tuple[int, int]:
    """Return what is ready in main and parking, and the letter's captures in quarantine."""
    async with open_broker(url) as broker:
        left = await _ready(broker)
        async with broker.connect(ConnectionOptions("checker")) as connection:
            copies = await _captures(await connection.open_channel())
            await connection.aclose()
        return left, copies


async def _ready(broker: Broker) -> int:
    """Count once the broker has noticed that the process is gone: what it held is ready again."""
    async with broker.connect(ConnectionOptions("checker")) as connection:
        channel = await connection.open_channel()
        while True:
            states = [await channel.declare_queue(QueueSpec(name), passive=True) for name in (QUEUE, PARKING)]
            if not any(state.consumers for state in states):
                await connection.aclose()
                return sum(state.ready for state in states)
            await trio.sleep(0.02)


async def _captures(channel: Channel) -> int:
    """Count the letter's captures; what was taken goes back as the connection closes."""
    count = 0
    while (delivery := await channel.get(QUARANTINE)) is not None:
        count += ID.encode() in delivery.body or base64.b64encode(_MALFORMED) in delivery.body
    return count
