"""Taking messages out of quarantine into files: on disk, fsync, and only then acked (ADR-059 §quarantine).

A drain folder holds ``drain.jsonl`` (a line a message, its body in base64: the evidence), and after each run
``originals/`` (the raw original bodies) and ``MANIFEST.sha256`` (the digest of every file, as sha256sum
writes it). Folder and files are for their owner alone.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import trio

from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.outcome import AckWritten
from craig_mq.core.properties_json import properties_to_json
from craig_mq.core.timing import format_instant
from craig_mq.core.unwrap import Capture, original_bytes, read_capture
from craig_mq.operator.append_log import AppendLog, open_log, sync_folder
from craig_mq.operator.errors import BadFolder
from craig_mq.operator.lease import MAX_SCAN, WINDOW_S, Lease, lease_queue
from craig_mq.operator.row import Row, read_row
from craig_mq.operator.scan import ignore_progress
from craig_mq.operator.where import Condition, selects
from craig_mq.transport.broker import Broker
from craig_mq.transport.errors import TransportError
from supervisors.shutdown import Shutdown

DRAIN_LOG: Final = "drain.jsonl"
MANIFEST: Final = "MANIFEST.sha256"
ORIGINALS: Final = "originals"


class DrainedLine(msgspec.Struct, frozen=True):
    """One drained message. ``sha256`` is of the body; ``row`` holds the capture's fields."""

    key: str
    sha256: str
    drained_at: str
    body_b64: str
    properties: msgspec.Raw
    row: dict[str, Any]

    @property
    def body(self) -> bytes:
        """The message body. Raises BadFolder where it does not match its digest."""
        try:
            body = base64.b64decode(self.body_b64, validate=True)
        except ValueError as error:
            raise BadFolder(f"the body of {self.key} is no base64") from error
        if hashlib.sha256(body).hexdigest() != self.sha256:
            raise BadFolder(f"the body of {self.key} does not match its sha256")
        return body


@attrs.define(frozen=True, slots=True)
class DrainOptions:
    """What to drain; ``now`` gives seconds since the Unix epoch."""

    where: Sequence[Condition]
    now: Callable[[], float]
    limit: int = MAX_SCAN
    accept_delivery_count: bool = False


@attrs.define(slots=True, eq=False)
class Drained:
    """``drained`` were written and acked in this run, ``acked_only`` were on disk from an earlier one."""

    selected: int = 0
    drained: int = 0
    acked_only: int = 0
    in_folder: int = 0
    complete: bool = True
    stopped: str | None = None


async def drain_queue(
    broker: Broker,
    queue: str,
    folder: Path,
    options: DrainOptions,
    *,
    stop: Shutdown,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> Drained:
    """Move what the conditions select into ``folder``, new or left by an interrupted drain.

    Raises as ``lease_queue``, BadFolder for a folder that holds something else, and OSError when it can't
    be written, for instance on a full disk: then nothing that is not on disk was acked, and the rest is
    back in its place. Cancelled: the same. Run it again to go on.
    """
    folder.mkdir(mode=0o700, exist_ok=True)  # noqa: ASYNC240 - once, before anything is held
    result = Drained()
    with open_log(folder / DRAIN_LOG) as log:
        drain = _Drain(log, options, result)
        try:
            async with lease_queue(
                broker,
                queue,
                limit=options.limit,
                seconds=WINDOW_S,
                accept_delivery_count=options.accept_delivery_count,
            ) as lease:
                await drain.through(lease, stop, on_progress)
        except TransportError as error:
            result.stopped = f"the broker ended the lease: {error}"
        result.in_folder = len(drain.known)
        finish_folder(folder)
        await trio.lowlevel.checkpoint()
    return result


class _Drain:
    def __init__(self, log: AppendLog, options: DrainOptions, result: Drained) -> None:
        self._log = log
        self._options = options
        self._result = result
        self._now_s = options.now()
        self.known: dict[str, str] = {line.key: line.sha256 for line in decode_lines(log.lines)}

    async def through(self, lease: Lease, stop: Shutdown, on_progress: Callable[[int, int], None]) -> None:
        result = self._result
        while result.stopped is None and (delivery := await lease.receive()) is not None:
            row = read_row(delivery, lease.received - 1)
            if selects(self._options.where, row, self._now_s):
                result.selected += 1
                await self._one(lease, delivery, row)
            on_progress(lease.received, lease.depth)
            if stop.requested:
                result.stopped = f"asked to stop: {stop.reason}"
        result.complete = lease.complete
        await trio.lowlevel.checkpoint()

    async def _one(self, lease: Lease, delivery: Delivery, row: Row) -> None:
        """Write it unless it is on disk already, and ack; no task switch lies between the two."""
        on_disk = self.known.get(row.key) == row.sha256
        if not on_disk:
            self._log.append(msgspec.json.encode(self._line(delivery, row)))
            self.known[row.key] = row.sha256
        outcome = await lease.ack(delivery)
        if not isinstance(outcome, AckWritten):
            self._result.stopped = f"on disk, but the ack failed ({outcome}): run it again to ack it"
        elif on_disk:
            self._result.acked_only += 1
        else:
            self._result.drained += 1

    def _line(self, delivery: Delivery, row: Row) -> DrainedLine:
        return DrainedLine(
            key=row.key,
            sha256=row.sha256,
            drained_at=format_instant(self._options.now()),
            body_b64=base64.b64encode(delivery.body).decode(),
            properties=msgspec.Raw(properties_to_json(delivery.properties, delivery.undecodable)),
            row=attrs.asdict(row),
        )


def decode_lines(lines: Sequence[bytes]) -> list[DrainedLine]:
    """Read a drain log. Raises BadFolder."""
    try:
        return [msgspec.json.decode(line, type=DrainedLine) for line in lines]
    except msgspec.MsgspecError as error:
        raise BadFolder(f"{DRAIN_LOG} was edited or is no drain: {error}") from error


def finish_folder(folder: Path) -> None:
    """Write the raw originals and the manifest from the log; the same log gives the same files."""
    originals = folder / ORIGINALS
    originals.mkdir(mode=0o700, exist_ok=True)
    data = (folder / DRAIN_LOG).read_bytes()
    digests = {DRAIN_LOG: hashlib.sha256(data).hexdigest()}
    for line in decode_lines(data.splitlines()):
        original = _original(line.body)
        name = f"{ORIGINALS}/{line.key.replace(':', '-')}.bin"
        _replace(folder / name, original)
        digests[name] = hashlib.sha256(original).hexdigest()
    _replace(folder / MANIFEST, manifest_text(digests))
    sync_folder(folder)


def manifest_text(digests: Mapping[str, str]) -> bytes:
    """The manifest of these files, as ``sha256sum --check`` reads it."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode()


def _original(body: bytes) -> bytes:
    """The original body inside a capture (its prefix where truncated); of anything else, all of it."""
    try:
        capture = read_capture(decode_envelope(body))
    except MalformedBody:
        return body
    if not isinstance(capture, Capture):
        return body
    original = original_bytes(capture)
    return original if isinstance(original, bytes) else body


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, for its owner alone."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
