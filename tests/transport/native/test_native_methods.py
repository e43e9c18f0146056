"""Methods on the wire, compared with pamqp's own encoding of the same methods."""

from __future__ import annotations

import pytest
from pamqp import commands, frame

from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.transport.native import methods, requests
from craig_mq.transport.native.wire import ProtocolViolation

_ARGUMENTS = {"x-queue-type": "quorum", "x-message-ttl": 60_000}
REQUESTS = [
    requests.declare_exchange(ExchangeSpec("craig.dlx", "topic"), passive=False).method,
    requests.declare_queue(QueueSpec("q", arguments=_ARGUMENTS), passive=False).method,
    requests.declare_queue(
        QueueSpec("q", durable=False, exclusive=True, auto_delete=True), passive=True
    ).method,
    requests.delete_queue("q").method,
    requests.purge_queue("q").method,
    requests.bind_queue(BindingSpec("craig.dlx", "q", "dlq.é")).method,
    requests.unbind_queue(BindingSpec("craig.dlx", "q", "dlq.#")).method,
    requests.limit_prefetch(65_535).method,
    requests.consume("q", "tag", exclusive=True).method,
    requests.cancel("tag").method,
    requests.select_confirms().method,
    commands.Channel.Open(),
    commands.Channel.Close(200, "bye", 0, 0),
    commands.Basic.Get(queue="q"),
    commands.Connection.StartOk({"product": "p"}, "PLAIN", "\0u\0p", "en_US"),
    commands.Connection.TuneOk(2047, 131_072, 60),
    commands.Connection.Open("/"),
]
ANSWERS = [
    commands.Connection.Start(0, 9, {"product": "RabbitMQ", "n": 1}, "PLAIN AMQPLAIN", "en_US"),
    commands.Connection.Tune(2047, 131_072, 60),
    commands.Channel.OpenOk(),
    commands.Queue.DeclareOk("q", 3, 1),
    commands.Queue.DeleteOk(7),
    commands.Basic.ConsumeOk("tag"),
    commands.Basic.QosOk(),
]


@pytest.mark.parametrize("method", REQUESTS, ids=lambda method: method.name)
def test_a_request_is_encoded_as_pamqp_does(method):
    """Every request this client makes is on the wire, byte for byte, what pamqp makes of it."""
    assert methods.encode(method, 3) == frame.marshal(method, 3)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_an_answer_is_decoded_as_pamqp_encodes_it(answer):
    """Every argument of an answer comes out as it went in."""
    assert dict(methods.decode(answer.index, answer.marshal())) == dict(answer)


def test_an_answer_that_ends_early_is_a_violation():
    """A method whose arguments are cut short is refused, not guessed at."""
    with pytest.raises(ProtocolViolation, match=r"Queue\.DeclareOk cannot be decoded"):
        methods.decode(commands.Queue.DeclareOk.index, commands.Queue.DeclareOk("q", 3, 1).marshal()[:-5])


def test_names_that_the_wire_cannot_hold_are_refused():
    """A queue name of more than 255 bytes is a ValueError before anything is sent."""
    with pytest.raises(ValueError, match="Max length"):
        methods.encode(requests.purge_queue("q" * 300).method, 1)
