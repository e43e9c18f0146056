"""The writer: what is alone leaves at once, what comes in company leaves together, and the order stays."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from craig_mq.transport.native.wire import BATCH_BYTES, Outbox
from craig_mq.transport.native.writer import CoalescingWriter, PendingWriters


class Socket:
    """A stream that takes ``room`` bytes without waiting, and keeps every piece it was given."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.pieces: list[bytes] = []
        self.gate = trio.Event()
        self.gate.set()

    async def send_all(self, data: bytes) -> None:
        await self.gate.wait()
        self.pieces.append(data)

    def send_nowait(self, data: bytes) -> int:
        taken = data[: self.room]
        if taken:
            self.pieces.append(taken)
        return len(taken)


async def test_a_lone_frame_leaves_at_once(nursery, autojump_clock):
    """A prompt chunk is with the operating system when ``put`` returns, and a flush of it is over."""
    outbox, stream = Outbox(), Socket(room=100)
    writer = CoalescingWriter(stream, outbox)
    nursery.start_soon(writer.run)
    await trio.testing.wait_all_tasks_blocked()
    outbox.put(b"alone", prompt=True)
    assert stream.pieces == [b"alone"]
    with trio.fail_after(1):
        await writer.wait_written(outbox.settle(), 1)


@pytest.mark.parametrize("room", [0, 3])
async def test_what_the_socket_does_not_take_follows_in_order(nursery, autojump_clock, room):
    """The rest of a prompt chunk is written before what was accepted after it, and flushed only then."""
    outbox, stream = Outbox(), Socket(room)
    writer = CoalescingWriter(stream, outbox)
    nursery.start_soon(writer.run)
    await trio.testing.wait_all_tasks_blocked()
    stream.gate = trio.Event()
    outbox.put(b"prompt", prompt=True)
    outbox.put(b"later", prompt=True)
    flushed = trio.Event()

    async def flush() -> None:
        await writer.wait_written(outbox.settle(), 1)
        flushed.set()

    nursery.start_soon(flush)
    await trio.testing.wait_all_tasks_blocked()
    assert not flushed.is_set()
    stream.gate.set()
    await flushed.wait()
    assert b"".join(stream.pieces) == b"promptlater"


async def test_nothing_overtakes_a_write_under_way(nursery, autojump_clock):
    """A prompt chunk waits its turn while the socket is full."""
    outbox, stream = Outbox(), Socket(room=100)
    writer = CoalescingWriter(stream, outbox)
    nursery.start_soon(writer.run)
    await trio.testing.wait_all_tasks_blocked()
    stream.gate = trio.Event()
    outbox.put(b"first")
    await trio.testing.wait_all_tasks_blocked()
    outbox.put(b"second", prompt=True)
    assert stream.pieces == []
    stream.gate.set()
    await writer.wait_written(outbox.settle(), 1)
    assert stream.pieces == [b"first", b"second"]


async def test_company_leaves_as_one_piece(nursery, autojump_clock):
    """Chunks accepted in one scheduling pass are one send."""
    outbox, stream = Outbox(), Socket(room=100)
    writer = CoalescingWriter(stream, outbox)
    nursery.start_soon(writer.run)
    await trio.testing.wait_all_tasks_blocked()
    for chunk in (b"one", b"two", b"three"):
        outbox.put(chunk)
    await writer.wait_written(outbox.settle(), 1)
    assert stream.pieces == [b"onetwothree"]


async def test_a_full_batch_leaves_at_once(nursery, autojump_clock):
    """A batch is sent as soon as it is full, while its sender goes on; the rest leaves with the pass."""
    outbox, stream = Outbox(), Socket(room=2 * BATCH_BYTES)
    writer = CoalescingWriter(stream, outbox)
    nursery.start_soon(writer.run)
    await trio.testing.wait_all_tasks_blocked()
    half = b"h" * (BATCH_BYTES // 2)
    outbox.put(half)
    assert stream.pieces == []
    outbox.put(half)
    assert stream.pieces == [2 * half]
    outbox.put(b"rest")
    await writer.wait_written(outbox.settle(), 1)
    assert stream.pieces == [2 * half, b"rest"]


async def test_what_a_burst_led_to_leaves_at_its_end(nursery, autojump_clock):
    """Whoever ends a burst has every writer of the broker send at once, and each once."""
    pending, streams = PendingWriters(), [Socket(room=100), Socket(room=100)]
    outboxes = [Outbox(), Outbox()]
    for outbox, stream in zip(outboxes, streams, strict=True):
        nursery.start_soon(CoalescingWriter(stream, outbox, pending).run)
    await trio.testing.wait_all_tasks_blocked()
    for outbox in outboxes:
        outbox.put(b"ack")
    pending.send()
    assert [stream.pieces for stream in streams] == [[b"ack"], [b"ack"]]
    await trio.testing.wait_all_tasks_blocked()
    assert [stream.pieces for stream in streams] == [[b"ack"], [b"ack"]]


async def test_nothing_leaves_past_the_end_of_a_writer(nursery, autojump_clock):
    """A writer whose task was cancelled in the middle of a write sends nothing behind half a frame."""
    pending, outbox, stream = PendingWriters(), Outbox(), Socket(room=100)
    writer = CoalescingWriter(stream, outbox, pending)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as writing:
            writing.start_soon(writer.run)
            await trio.testing.wait_all_tasks_blocked()
            stream.gate = trio.Event()
            outbox.put(b"half of it may be out")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel(reason="the connection is aborted")
    outbox.put(b"more", prompt=True)
    pending.send()
    assert stream.pieces == []
