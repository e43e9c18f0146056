"""Confirms and returns: only a publish's own clean confirm makes it Acked."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from craig_mq.core.close import ChannelClose, ConnectionLoss
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked, Confirmation, Nacked, Returned, Unconfirmed
from craig_mq.transport.native.confirms import ConfirmLedger, PublishInFlight
from craig_mq.transport.native.wire import ProtocolViolation


def _publication(message_id: str, routing_key: str = "q") -> Publication:
    return Publication("", routing_key, b"body", Properties(message_id=message_id))


async def test_an_unknown_confirm_confirms_nothing(connected, autojump_clock):
    """CONF-10: a confirm for a tag that is not in flight ends the connection and confirms nothing."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Basic.Ack(99))
        await peer.send(commands.Basic.Ack(0, True))
        await peer.send(commands.Basic.Nack(1))

    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)
        outcome = await channel.publish(_publication("m1"))
        assert isinstance(outcome, Unconfirmed)
        assert outcome.sent
        assert "99" in str(await connection.wait_closed())


async def test_confirm_of_everything_so_far_is_none(connected, autojump_clock):
    """CONF-10: tag 0 with multiple, which no broker sends, never confirms a publish."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Basic.Ack(0, True))

    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)
        assert isinstance(await channel.publish(_publication("m1")), Unconfirmed)


async def test_multiple_acks_and_nacks_cover_all_before(connected, autojump_clock):
    """NACK-03: multiple confirms settle every publish up to their tag, each by its own sign."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        for _ in range(4):
            await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Basic.Ack(4))
        await peer.send(commands.Basic.Nack(2, True))
        await peer.send(commands.Basic.Ack(3, True))

    outcomes = {}
    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)

        async def publish(number, task_status):
            task_status.started()
            outcomes[number] = await channel.publish(_publication(f"m{number}"))

        async with trio.open_nursery() as nursery:
            for number in (1, 2, 3, 4):
                await nursery.start(publish, number)
    assert outcomes == {1: Nacked(), 2: Nacked(), 3: Acked(), 4: Acked()}


async def test_a_return_is_matched_by_message_id(connected, autojump_clock):
    """RET-02: a return fails the publish it names, though acks of others came between and its own follows."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.expect(commands.Basic.Publish)
        await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Basic.Return(312, "NO_ROUTE", "", "q"))
        await peer.content(b"body", message_id="gone")
        await peer.send(commands.Basic.Ack(2, True))

    outcomes = {}
    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)

        async def publish(message_id):
            outcomes[message_id] = await channel.publish(_publication(message_id))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, "stored")
            nursery.start_soon(publish, "gone")
    assert outcomes == {"stored": Acked(), "gone": Returned(312, "NO_ROUTE")}


async def test_two_publishes_under_one_id_both_fail_when_one_is_returned(connected, autojump_clock):
    """RET-01: with one message id twice in flight, a return is never mistaken for the other's."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.expect(commands.Basic.Publish)
        await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Basic.Return(312, "NO_ROUTE", "", "no.such.queue"))
        await peer.content(b"body", message_id="dup-1")
        await peer.send(commands.Basic.Ack(2, True))

    outcomes = []
    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)

        async def publish():
            outcomes.append(await channel.publish(_publication("dup-1")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            nursery.start_soon(publish)
    assert outcomes == [Returned(312, "NO_ROUTE")] * 2


@pytest.mark.parametrize("returned", [{}, {"message_id": "somebody-elses"}])
async def test_a_return_that_matches_nothing_fails_everything_in_flight(connected, autojump_clock, returned):
    """PROP-08: a return without a known id fails every publish in flight on its channel."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Basic.Return(312, "NO_ROUTE", "", "q"))
        await peer.content(b"body", **returned)
        await peer.send(commands.Basic.Ack(1))

    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)
        assert isinstance(await channel.publish(_publication("mine")), Unconfirmed)


async def test_a_channel_close_fails_every_publish_with_the_brokers_text(connected, autojump_clock):
    """CONF-07: a channel close fails all pending confirms of that channel at once, with its text."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.expect(commands.Basic.Publish)
        await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Channel.Close(404, "NOT_FOUND - no exchange 'craig.dlx'", 60, 40))

    outcomes = []
    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)

        async def publish(message_id):
            outcomes.append(await channel.publish(_publication(message_id)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, "a")
            nursery.start_soon(publish, "b")
        assert channel.closed == ChannelClose(404, "NOT_FOUND - no exchange 'craig.dlx'", 60, 40)
        assert connection.closed is None
        late = await channel.publish(_publication("c"))
    assert [type(outcome) for outcome in outcomes] == [Unconfirmed, Unconfirmed]
    assert all("NOT_FOUND" in outcome.reason and outcome.sent for outcome in outcomes)
    assert not late.sent


async def test_losing_the_connection_fails_every_publish(connected, autojump_clock):
    """CONF-06: when the connection goes, every pending confirm resolves as unknown at once."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        for _ in range(40):
            await peer.expect(commands.Basic.Publish)
        await peer.stream.aclose()

    outcomes = []
    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)

        async def publish(number):
            outcomes.append(await channel.publish(_publication(f"m{number}")))

        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(publish, number)
        assert isinstance(connection.closed, ConnectionLoss)
    assert len(outcomes) == 40
    assert all(isinstance(outcome, Unconfirmed) for outcome in outcomes)


async def test_a_late_confirm_of_a_cancelled_publish_is_dropped(connected, autojump_clock):
    """CONF-02: the confirm of a publish nobody waits for any more changes nothing for the next one."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.expect(commands.Basic.Publish)
        await peer.expect(commands.Basic.Publish)
        await peer.send(commands.Basic.Ack(1))
        await peer.send(commands.Basic.Nack(2))

    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)
        with trio.move_on_after(1) as bound:
            await channel.publish(_publication("first"))
        assert bound.cancelled_caught
        assert await channel.publish(_publication("second")) == Nacked()


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=30), st.integers(0, 10))
def test_a_publish_is_acked_only_by_its_own_positive_confirm(confirms, published):
    """Whatever confirms come, a publish is Acked exactly when a positive one covered it first."""
    told: list[tuple[int, Confirmation]] = []
    ledger = ConfirmLedger()
    for number in range(1, published + 1):
        hear = partial(lambda number, confirmation: told.append((number, confirmation)), number)
        ledger.register(PublishInFlight(f"m{number}", hear))
    model: dict[int, bool] = {}
    for tag, multiple, positive in confirms:
        pending = {number for number in range(1, published + 1) if number not in model}
        covered = {number for number in pending if number <= tag} if multiple else pending & {tag}
        legal = 0 < tag <= published if multiple else bool(covered)
        if legal:
            ledger.confirm(tag, multiple=multiple, positive=positive)
            model |= dict.fromkeys(covered, positive)
        else:
            with pytest.raises(ProtocolViolation):
                ledger.confirm(tag, multiple=multiple, positive=positive)
    ledger.fail("over")
    for number, confirmation in told:
        expected = {True: Acked, False: Nacked, None: Unconfirmed}[model.get(number)]
        assert isinstance(confirmation, expected)
    assert sorted(number for number, _ in told) == list(range(1, published + 1))
