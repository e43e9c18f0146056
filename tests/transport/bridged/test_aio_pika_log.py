"""What reaches the log from the libraries under the bridge."""

from __future__ import annotations

import logging

import pytest
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import PublishError
from pamqp import commands
from pamqp.header import ContentHeader

from craig_mq.transport.aio_pika.bridge import open_bridge

SECRET = "card 4111-1111"
LIBRARIES = ("aiormq.channel", "aiormq.connection", "aiormq.connection.marshall", "aio_pika.message")


def _returned() -> DeliveredMessage:
    """A returned message as aiormq holds it: its representation shows the body."""
    properties = commands.Basic.Properties(message_id="m-1", headers={"authorization": SECRET})
    frame = commands.Basic.Return(312, "NO_ROUTE", "craig.events", "order.placed")
    message = DeliveredMessage(
        delivery=frame, header=ContentHeader(properties=properties), body=SECRET.encode(), channel=None
    )
    assert SECRET in repr(message)
    return message


@pytest.mark.parametrize("name", LIBRARIES)
async def test_no_record_carries_a_message_or_its_exception(caplog, name):
    """CLI-02: with the bridge open, a record of the libraries shows types, never a body or a header."""
    caplog.set_level(logging.DEBUG)
    async with open_bridge():
        log = logging.getLogger(name)
        log.error("Message %r of %s was redelivered, try %d", _returned(), "q", 2)
        try:
            raise PublishError(_returned(), _returned().delivery)
        except PublishError as error:
            log.exception("Consumer callback failed")
            log.warning("Reader exited abnormally", exc_info=error)
            log.error(error)  # noqa: TRY400 - a message that is no text
        log.debug("%r", {"password": SECRET})
    text = caplog.text
    assert sum(record.name == name for record in caplog.records) == 5
    assert SECRET not in text
    assert "4111" not in text
    assert "Message <DeliveredMessage> of q was redelivered, try 2" in text
    assert "Consumer callback failed (PublishError)" in text


@pytest.mark.parametrize("level", [logging.WARNING, logging.DEBUG])
async def test_a_return_after_an_abandoned_publish_is_no_error(caplog, level):
    """CLI-02: aiormq's own handling of a return for a publish that was cancelled logs below WARNING."""
    caplog.set_level(level)
    channel = Channel.__new__(Channel)  # the method needs nothing but these two
    channel.message_id_delivery_tag = {}
    answers = [_returned().header, _returned()]

    async def take(*_: object) -> object:
        return answers.pop(0)

    channel._Channel__get_content_header = take
    channel._read_content = take
    async with open_bridge():
        await channel._on_return_frame(_returned().delivery)
    assert not answers
    assert SECRET not in caplog.text
    shown = [
        (record.levelno, record.getMessage()) for record in caplog.records if record.name == "aiormq.channel"
    ]
    quiet = [(logging.DEBUG, "Unhandled message <DeliveredMessage> returning")]
    assert shown == (quiet if level == logging.DEBUG else [])


async def test_a_record_without_arguments_stays_as_it_is(caplog):
    """The filter changes nothing in a record that has nothing to hide."""
    async with open_bridge():
        logging.getLogger("aiormq.connection").warning("Got unexpected %s frame 100%%", "UpdateSecretOk")
        logging.getLogger("aio_pika.channel").warning("Channel not opened: 5 %")
    assert [record.getMessage() for record in caplog.records] == [
        "Got unexpected UpdateSecretOk frame 100%",
        "Channel not opened: 5 %",
    ]
