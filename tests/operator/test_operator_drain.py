"""Draining to files: nothing acked that is not on disk, and all of it comes back."""

import errno
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from craig_mq.core.capture_format import QuarantineReason
from craig_mq.operator.append_log import AppendLog
from craig_mq.operator.drain import DrainOptions, drain_queue
from craig_mq.operator.errors import BadFolder
from craig_mq.operator.restore import import_folder, verify_folder
from craig_mq.operator.where import parse_where
from craig_mq.testing import Fault, FaultPlan, LoseConnection
from supervisors.shutdown import Shutdown


def _check_with_sha256sum(folder: Path) -> None:
    command = ["sha256sum", "--check", "--quiet", "MANIFEST.sha256"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def drain(broker, ward, tmp_path):
    """Drain what is malformed into a folder of the test's own."""

    async def run(*where: str):
        options = DrainOptions(parse_where(where or ("reason=malformed",)), lambda: ward.now_s)
        return await drain_queue(broker, ward.quarantine, tmp_path / "drained", options, stop=Shutdown())

    return run


async def test_malformed_captures_drain_to_files_and_come_back(
    autojump_clock, broker, ward, fill, drain, desk, tmp_path
) -> None:
    """Malformed captures leave for files that sha256sum accepts, the rest stays, an import restores them."""
    raw = [bytes([255, n]) for n in range(20)]
    bodies = [body for one in raw for body in (ward.malformed(one), ward.capture())]
    fill(*bodies)
    result = await drain()
    assert (result.selected, result.drained, result.in_folder, result.stopped) == (20, 20, 20, None)
    assert desk.quarantined == tuple(bodies[1::2])
    folder = tmp_path / "drained"
    _check_with_sha256sum(folder)
    assert {path.read_bytes() for path in (folder / "originals").iterdir()} == set(raw)
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))
    broker.purge(ward.quarantine)
    stop = Shutdown()
    assert (await import_folder(broker, ward.quarantine, folder, stop=stop)).imported == 20
    assert desk.quarantined == tuple(bodies[0::2])
    again = await import_folder(broker, ward.quarantine, folder, stop=stop)
    assert (again.imported, again.present) == (0, 20)


@pytest.mark.parametrize(
    ("messages", "room_bytes"), [(10, 3_000), pytest.param(1_000, 1_500_000, marks=pytest.mark.soak)]
)
async def test_a_full_disk_acks_nothing_that_is_not_on_it(
    autojump_clock, broker, ward, fill, drain, desk, tmp_path, monkeypatch, messages, room_bytes
) -> None:
    """When the disk is full in the middle of a line, that message and all behind it stay, in order."""
    bodies = fill(*(ward.malformed(b"\xff%d" % n) for n in range(messages)))
    written, real = [0], os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        room = room_bytes - written[0]
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real(descriptor, data[:room], offset)
        written[0] += count
        return count

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        await drain()
    left = desk.quarantined
    lines = (tmp_path / "drained" / "drain.jsonl").read_bytes().splitlines()
    assert 0 < len(lines) < messages
    assert len(lines) + len(left) == messages
    assert left == bodies[len(lines) :]
    monkeypatch.setattr(os, "pwrite", real)
    assert (await drain()).in_folder == messages
    assert len(verify_folder(tmp_path / "drained")) == messages
    assert desk.quarantined == ()


async def test_a_kill_at_every_message_loses_nothing(
    autojump_clock, broker, ward, fill, drain, desk, tmp_path, monkeypatch
) -> None:
    """Killed before or after any line, message by message, the folder and the queue hold everything."""
    for after_line in (False, True):
        for at in range(6):
            shutil.rmtree(tmp_path / "drained", ignore_errors=True)
            broker.purge(ward.quarantine)
            bodies = fill(*(ward.malformed(bytes([255, n])) for n in range(6)))
            with monkeypatch.context() as patch:
                _kill_at(patch, broker, at, after_line=after_line)
                with pytest.raises(ProcessLookupError):
                    await drain()
            kept = (tmp_path / "drained" / "drain.jsonl").read_bytes().splitlines()
            assert len(kept) + len(desk.quarantined) == 6 + after_line
            result = await drain()
            assert (result.in_folder, result.acked_only) == (6, int(after_line))
            assert desk.quarantined == ()
            assert [line.body for line in verify_folder(tmp_path / "drained")] == list(bodies)


@pytest.mark.parametrize(("messages", "faults"), [(40, 4), pytest.param(1_000, 20, marks=pytest.mark.soak)])
async def test_faults_in_turn_lose_nothing(
    autojump_clock, broker, ward, fill, drain, desk, tmp_path, monkeypatch, messages, faults
) -> None:
    """Killed and out of disk at random lines, in turn, each capture is on disk or queued; all come back."""
    bodies = fill(*(ward.malformed(b"\xff%d" % n) for n in range(messages)))
    chance, path = random.Random(messages), tmp_path / "drained" / "drain.jsonl"
    for fault in range(faults):
        with monkeypatch.context() as patch:
            at = chance.randrange(messages // faults)
            if fault % 2:
                _full_at(patch, at)
            else:
                _kill_at(patch, broker, at, after_line=chance.random() < 0.5)
            with pytest.raises(OSError, match=r"killed|No space"):
                await drain()
        assert path.read_bytes().count(b"\n") + len(desk.quarantined) in {messages, messages + 1}
        assert desk.quarantined == bodies[messages - len(desk.quarantined) :]
    assert (await drain()).in_folder == messages
    assert desk.quarantined == ()
    _check_with_sha256sum(path.parent)
    assert [line.body for line in verify_folder(path.parent)] == list(bodies)
    assert (await import_folder(broker, ward.quarantine, path.parent, stop=Shutdown())).imported == messages
    assert desk.quarantined == bodies


def _full_at(patch, at: int) -> None:
    """Let the disk be full in the middle of a line."""
    count, real = [0], os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        count[0] += 1
        if count[0] > at:
            real(descriptor, data[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    patch.setattr(os, "pwrite", full)


def _kill_at(patch, broker, at: int, *, after_line: bool) -> None:
    count, real = [0], AppendLog.append

    def append(self: AppendLog, line: bytes) -> None:
        count[0] += 1
        if count[0] == at + 1:
            if after_line:
                real(self, line)
            for name in set(broker.connections):
                broker.close_connection(name, "killed")
            raise ProcessLookupError("killed")
        real(self, line)

    patch.setattr(AppendLog, "append", append)


async def test_a_lost_ack_is_made_up_for_without_a_second_line(
    autojump_clock, broker, ward, fill, drain, desk
) -> None:
    """A message on disk whose ack was lost is only acked by the next drain into the same folder."""
    fill(ward.malformed(), ward.malformed(b"\xfe"))
    broker.inject(FaultPlan((Fault("ack", LoseConnection(), name=ward.quarantine),)))
    assert (await drain()).stopped is not None
    broker.inject(None)
    result = await drain()
    assert (result.in_folder, result.acked_only + result.drained) == (2, 2)
    assert desk.quarantined == ()


async def test_anything_in_quarantine_can_be_drained(autojump_clock, ward, fill, drain, desk) -> None:
    """What is no capture at all, and what cannot return, drains as well as what is malformed."""
    fill(b"junk", b"", ward.capture(key="x", reason=QuarantineReason.NONCANONICAL_ROUTE))
    await drain("size>=0")
    assert desk.quarantined == ()


async def test_an_edited_folder_is_refused(autojump_clock, broker, ward, fill, drain, tmp_path) -> None:
    """A changed, missing or added file is named, and nothing of such a folder is imported."""
    fill(ward.malformed())
    await drain()
    folder = tmp_path / "drained"
    [original] = (folder / "originals").iterdir()
    content = original.read_bytes()
    for spoil, words in (
        (lambda: original.write_bytes(b"x"), "was changed"),
        (original.unlink, "is missing"),
        (lambda: (folder / "more").write_bytes(b""), "more is not in the manifest"),
        ((folder / "MANIFEST.sha256").unlink, "no readable MANIFEST"),
    ):
        spoil()
        with pytest.raises(BadFolder, match=words):
            await import_folder(broker, ward.quarantine, folder, stop=Shutdown())
        original.write_bytes(content)
    assert broker.queue(ward.quarantine).ready == 0


async def test_an_import_stops_at_what_is_not_confirmed(
    autojump_clock, broker, ward, fill, drain, desk, tmp_path
) -> None:
    """An import that loses its connection stops, and goes on from there when run again."""
    bodies = fill(*(ward.malformed(bytes([255, n])) for n in range(5)))
    await drain()
    broker.inject(FaultPlan((Fault("publish", LoseConnection(), name=ward.quarantine, index=None),)))
    folder = tmp_path / "drained"
    first = await import_folder(broker, ward.quarantine, folder, stop=Shutdown())
    assert "was not confirmed" in str(first.stopped)
    broker.inject(None)
    with trio.fail_after(60):
        await import_folder(broker, ward.quarantine, folder, stop=Shutdown())
    assert desk.quarantined == bodies
