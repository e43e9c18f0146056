"""Acks: as few frames as is safe, never one delivery more than was acked."""

from __future__ import annotations

import struct

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from craig_mq.transport.native.acks import AckCoalescer

_ACK, _NACK = 0x50, 0x78


def _frames(data: bytes) -> list[tuple[int, int, int]]:
    """Split settlement frames into (method, tag, bits)."""
    frames = []
    for at in range(0, len(data), 21):
        _, channel, size, _, method, tag, bits, end = struct.unpack_from(">BHIHHQBB", data, at)
        assert (channel, size, end) == (7, 13, 0xCE)
        frames.append((method, tag, bits))
    return frames


def test_a_contiguous_run_is_one_frame():
    """Acks that leave nothing outstanding below them are written as one multiple ack."""
    acks = AckCoalescer(7)
    for tag in range(1, 101):
        acks.outstanding[tag] = None
    for tag in range(100, 0, -1):
        acks.ack(tag)
    assert _frames(acks.emit()) == [(_ACK, 100, 1)]
    assert acks.written == 1


def test_an_outstanding_delivery_is_never_covered():
    """A multiple ack stops below the lowest delivery still being worked on."""
    acks = AckCoalescer(7)
    for tag in range(1, 8):
        acks.outstanding[tag] = None
    for tag in (1, 2, 3, 5, 6, 7):
        acks.ack(tag)
    assert _frames(acks.emit()) == [(_ACK, 3, 1), (_ACK, 5, 0), (_ACK, 6, 0), (_ACK, 7, 0)]


def test_a_tag_that_was_never_delivered_goes_out_in_its_place():
    """ACK-01: an ack for tag 999 is written alone, before the acks accepted after it."""
    acks = AckCoalescer(7)
    for tag in (1, 2, 3):
        acks.outstanding[tag] = None
    acks.ack(1)
    acks.ack(999)
    acks.ack(2)
    assert _frames(acks.emit()) == [(_ACK, 1, 0), (_ACK, 999, 0), (_ACK, 2, 0)]


def test_nothing_is_written_after_the_end():
    """CHC-03: acks accepted before a channel ended are dropped: a late frame is a connection error."""
    acks = AckCoalescer(7)
    acks.outstanding[1] = None
    acks.ack(1)
    acks.drop()
    assert acks.emit() == b""


class Settlement(RuleBasedStateMachine):
    """A broker's view of one channel: outstanding tags, and what became of each."""

    def __init__(self):
        super().__init__()
        self.acks = AckCoalescer(7)
        self.next_tag = 1
        self.open: set[int] = set()
        self.wanted: dict[int, str] = {}
        self.outstanding: set[int] = set()
        self.settled: dict[int, str] = {}

    def apply(self, data: bytes) -> None:
        for method, tag, bits in _frames(data):
            assert tag in self.outstanding, "the named tag must be outstanding"
            covered = {one for one in self.outstanding if one <= tag} if bits & 1 else {tag}
            self.outstanding -= covered
            self.settled |= dict.fromkeys(covered, "ack" if method == _ACK else "nack")

    @rule(count=st.integers(1, 5))
    def deliver(self, count):
        for _ in range(count):
            self.acks.outstanding[self.next_tag] = None
            self.open.add(self.next_tag)
            self.outstanding.add(self.next_tag)
            self.next_tag += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def ack(self, data):
        tag = data.draw(st.sampled_from(sorted(self.open)))
        self.acks.ack(tag)
        self.open.remove(tag)
        self.wanted[tag] = "ack"

    @precondition(lambda self: self.open)
    @rule(data=st.data(), multiple=st.booleans())
    def nack(self, data, multiple):
        tag = data.draw(st.sampled_from(sorted(self.open)))
        self.apply(self.acks.nack(tag, multiple=multiple, requeue=True))
        covered = {one for one in self.open if one <= tag} if multiple else {tag}
        self.open -= covered
        self.wanted |= dict.fromkeys(covered, "nack")

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def ack_multiple(self, data):
        tag = data.draw(st.sampled_from(sorted(self.open)))
        self.apply(self.acks.ack_up_to(tag))
        covered = {one for one in self.open if one <= tag}
        self.open -= covered
        self.wanted |= dict.fromkeys(covered, "ack")

    @rule()
    def emit(self):
        self.apply(self.acks.emit())
        assert self.settled == self.wanted

    @invariant()
    def nothing_is_settled_that_was_not_asked_for(self):
        assert self.settled.items() <= self.wanted.items()


Settlement.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSettlement = Settlement.TestCase


def test_a_multiple_ack_names_a_tag_that_is_still_outstanding():
    """A run of earlier acks never swallows the tag that a later multiple ack names."""
    acks = AckCoalescer(7)
    for tag in range(1, 5):
        acks.outstanding[tag] = None
    for tag in (1, 2, 4):
        acks.ack(tag)
    assert _frames(acks.ack_up_to(3)) == [(_ACK, 2, 1), (_ACK, 4, 0), (_ACK, 3, 1)]
