"""The writer: what is alone leaves at once, what comes in company leaves together, and the order stays."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from craig_mq.transport.native.wire import Outbox
from craig_mq.transport.native.writer import CoalescingWriter


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
