"""Drain folders read back: verified, and brought into quarantine again, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
import msgspec

from craig_mq.core.outcome import Acked
from craig_mq.operator.append_log import open_log
from craig_mq.operator.drain import DRAIN_LOG, MANIFEST, DrainedLine, decode_lines
from craig_mq.operator.errors import BadFolder
from craig_mq.operator.publisher import open_publisher
from craig_mq.operator.scan import ignore_progress
from craig_mq.runtime.publication import DEFAULT_EXCHANGE, capture_publication
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.transport.broker import Broker
from supervisors.shutdown import Shutdown

IMPORT_LOG: Final = "import.jsonl"


@attrs.define(slots=True, eq=False)
class Imported:
    """``present`` were imported by an earlier run of the same folder."""

    messages: int
    imported: int = 0
    present: int = 0
    stopped: str | None = None


class ImportedLine(msgspec.Struct, frozen=True):
    """One confirmed publish of an import."""

    key: str
    queue: str


def verify_folder(folder: Path) -> list[DrainedLine]:
    """Check every file against the manifest and every body against its digest; return the messages.

    Raises BadFolder, which names the first file or message that is missing, unlisted or changed.
    """
    listed = _manifest(folder)
    present = {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {MANIFEST, IMPORT_LOG}
    }
    for name in sorted(listed.keys() ^ present):
        raise BadFolder(f"{name} is {'missing' if name in listed else 'not in the manifest'}")
    for name, digest in listed.items():
        with (folder / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise BadFolder(f"{name} was changed: its SHA-256 is not the manifest's")
    lines = decode_lines((folder / DRAIN_LOG).read_bytes().splitlines())
    for line in lines:
        hashlib.sha256(line.body)
    return lines


async def import_folder(
    broker: Broker,
    queue: str,
    folder: Path,
    *,
    stop: Shutdown,
    sources: Sources = SYSTEM_SOURCES,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> Imported:
    """Verify ``folder`` and publish its messages to ``queue``, confirmed, in the order they were drained.

    Each confirmed one is noted in the folder, so running it again goes on where it stopped; a kill between
    a confirm and its note leaves one second copy, with the same capture_id. Raises BadFolder, OSError.
    """
    lines = verify_folder(folder)
    result = Imported(len(lines))
    with open_log(folder / IMPORT_LOG) as log:
        done = _notes(log.lines)
        async with open_publisher(broker, f"import to {queue}") as publisher:
            for number, line in enumerate(lines, 1):
                if stop.requested:
                    result.stopped = f"asked to stop: {stop.reason}"
                    break
                note = ImportedLine(line.key, queue)
                if note in done:
                    result.present += 1
                    continue
                publication = capture_publication(DEFAULT_EXCHANGE, queue, line.body, sources)
                confirmation = await publisher.publish(publication)
                if not isinstance(confirmation, Acked):
                    result.stopped = f"{line.key} was not confirmed: {confirmation}"
                    break
                log.append(msgspec.json.encode(note))
                result.imported += 1
                on_progress(number, len(lines))
    return result


def _notes(lines: Sequence[bytes]) -> set[ImportedLine]:
    try:
        return {msgspec.json.decode(line, type=ImportedLine) for line in lines}
    except msgspec.MsgspecError as error:
        raise BadFolder(f"{IMPORT_LOG} was edited or is no record of an import: {error}") from error


def _manifest(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise BadFolder(f"there is no folder {folder}")
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFolder(f"{folder} has no readable {MANIFEST}: run the drain again to finish it") from error
    pairs = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in pairs}
