"""Starting: what is refused at once, what is retried, and for how long (decisions, 18)."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from craig_mq import Disposition, SubscribeDlqError, SubscriptionOptions
from craig_mq.core.errors import DlqConfigError
from craig_mq.observe.events import SessionRefused, SessionUp, SettlementFailure, TopologyDeclined
from craig_mq.runtime.declare import TopologyRefused
from craig_mq.runtime.errors import StartTimedOut
from craig_mq.runtime.permission import PublishRefused
from craig_mq.transport.memory.fault_actions import Hang, LoseConnection, Raise
from craig_mq.transport.memory.faults import Fault, FaultPlan
from craig_mq.transport.memory.trace import ConnectionOpened, MessagePublished

QUEUE, PARKING, QUARANTINE = "security.dlq", "security.dlq.parking", "security.dlq.quarantine"


async def refused(rig, **arguments):
    """Start and return the refusal; nothing may be left running."""
    async with trio.open_nursery() as nursery:
        with pytest.raises(SubscribeDlqError) as caught:
            await nursery.start(rig.subscribe(**arguments))
        assert rig.broker.connections == ()
    return caught.value


def not_async(number, letter):
    """Return no awaitable."""


async def two_arguments(first, second):
    """Take one argument too many."""


class NotAsync:
    """Has a handler that returns no awaitable."""

    def handle(self, letter):
        """Return none."""


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": "q" * 250}, "queue"),
        ({"queue": "amq.q"}, "queue"),
        ({"binding_keys": ()}, "binding_keys"),
        ({"binding_keys": "dlq.#"}, "binding_keys"),
        ({"binding_keys": None}, "binding_keys"),
        ({"binding_keys": iter(["dlq.#"])}, "binding_keys"),
        ({"config": SubscriptionOptions()}, "config"),
        ({"options": None}, "options"),
        ({"handler": "handle"}, "handler"),
        ({"handler": lambda _: None}, "handler"),
        ({"handler": partial(not_async, 1)}, "handler"),
        ({"handler": NotAsync().handle}, "handler"),
        ({"handler": NotAsync}, "handler"),
        ({"handler": two_arguments}, "handler"),
        ({"handler": partial(two_arguments, 1, 2)}, "handler"),
        ({"handler": lambda one: two_arguments(one, 2)}, "handler"),
    ],
)
async def test_bad_names_are_refused_before_dialling(autojump_clock, rig, arguments, field):
    """Names and kinds that cannot be are SubscribeDlqError(CONFIG) naming the field; nothing is dialled."""
    error = await refused(rig, **arguments)
    assert error.kind.value == "config"
    assert isinstance(error.source, DlqConfigError)
    assert error.source.field.startswith(field)
    assert not any(isinstance(record, ConnectionOpened) for record in rig.broker.trace)


async def test_no_permission_to_consume(autojump_clock, rig):
    """A refused consume at the first start raises SubscribeDlqError(AMQP) at once."""
    rig.broker.set_permissions(read="nothing")
    error = await refused(rig)
    assert error.kind.value == "amqp"
    assert rig.now < 1


@pytest.mark.parametrize(
    ("write", "route", "exchange"),
    [
        ("nothing", "exchange", "craig.dlx"),
        ("nothing", "queue", "amq.default"),
        (r"^(?!amq\.default)", "exchange", "amq.default"),
        (r"^(?!craig\.dlx)", "exchange", "craig.dlx"),
    ],
)
async def test_no_permission_to_publish(autojump_clock, rig, write, route, exchange):
    """A refused publish at the first start raises SubscribeDlqError(AMQP) at once, naming the exchange."""
    rig.broker.set_permissions(write=write)
    error = await refused(rig, options=SubscriptionOptions(return_route=route))
    assert error.kind.value == "amqp"
    assert isinstance(error.source, PublishRefused)
    assert exchange in str(error)
    assert rig.now < 1


async def test_asking_for_permission_leaves_no_message(autojump_clock, rig):
    """The question whether publishing is allowed reaches no queue, not even one bound to everything."""
    rig.broker.declare_queue("everything")
    async with rig.subscribed() as subscription:
        subscription.shutdown()
    rig.broker.bind("craig.dlx", "everything", "#")
    async with rig.subscribed():
        pass
    assert {name: rig.ready(name) for name in ("everything", QUEUE, PARKING, QUARANTINE)} == {
        "everything": 0,
        QUEUE: 0,
        PARKING: 0,
        QUARANTINE: 0,
    }
    assert not any(isinstance(record, MessagePublished) for record in rig.broker.trace)


async def test_a_start_during_an_alarm_is_no_refusal(autojump_clock, rig):
    """Where an alarm keeps the broker from answering, the subscription starts at once all the same."""
    rig.broker.alarm(on=True)
    async with rig.subscribed() as subscription:
        assert subscription.snapshot().main.consuming
        assert rig.now < 1
        rig.broker.alarm(on=False)


async def test_publishing_refused_later_recovers_without_restart(autojump_clock, rig):
    """PERM-01: write withdrawn while running fails settlements with backoff, loudly; nothing is acked."""
    async with rig.subscribed(rig.handler(lambda _: Disposition.TRANSIENT_PARK)) as subscription:
        rig.broker.set_permissions(write="nothing")
        rig.publish()
        await trio.sleep(60)
        failures = rig.heard(SettlementFailure)
        assert 5 <= len(failures) <= 7
        assert all("ACCESS_REFUSED" in failure.text for failure in failures)
        assert subscription.statistics().parked == 0
        assert subscription.snapshot().parking.generation == 1
        assert subscription.snapshot().parking.consuming
        rig.broker.set_permissions()
        await trio.sleep(31)
        assert subscription.statistics().parked == 1


async def test_an_unreachable_broker_is_retried_until_start_timeout(autojump_clock, rig):
    """CHRN-01: an unreachable broker is retried with backoff until start_timeout, then refused."""
    rig.broker.stop()
    error = await refused(rig)
    assert rig.now == pytest.approx(30)
    assert isinstance(error.source, StartTimedOut)
    assert error.kind.value == "amqp"


async def test_silent_listeners_are_bounded(autojump_clock, rig):
    """CHRN-01: a peer that accepts and stays silent costs connect_timeout per attempt; attempts are few."""
    rig.broker.inject(FaultPlan([Fault("connect", Hang(), times=None)]))
    options = SubscriptionOptions(start_timeout=1_800)
    with pytest.raises(ExceptionGroup):
        async with trio.open_nursery() as nursery:
            await nursery.start(rig.subscribe(options=options))
    attempts = [strike for strike in rig.broker.strikes if "main" in strike.occurrence.connection]
    assert 1_800 / 40 <= len(attempts) <= 1_800 / 40 + 5


async def test_it_starts_once_the_broker_comes(autojump_clock, rig):
    """A broker that comes up within start_timeout is used as if nothing had been."""
    rig.broker.stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 20)
        nursery.start_soon(_restart_later, rig, 12)
        subscription = await nursery.start(rig.subscribe())
        assert 12 <= rig.now <= 30
        rig.publish()
        await trio.sleep(1)
        assert subscription.statistics().acked == 1
        subscription.shutdown()


async def _restart_later(rig, seconds):
    await trio.sleep(seconds)
    rig.broker.restart()


async def test_no_start_timeout_means_for_ever(autojump_clock, rig):
    """start_timeout=None retries an unreachable broker for ever."""
    rig.broker.stop()
    with trio.move_on_after(3_600) as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(rig.subscribe(options=SubscriptionOptions(start_timeout=None)))
    assert scope.cancelled_caught


async def test_later_refusals_are_retried_and_recover(autojump_clock, rig):
    """PERM-01: permission withdrawn later is retried at the cap, loudly, and recovers without restart."""
    async with rig.subscribed() as subscription:
        await trio.sleep(20)
        rig.broker.set_permissions(read="nothing")
        rig.broker.close_connection(f"craig_mq {QUEUE} main")
        await trio.sleep(120)
        assert subscription.snapshot().main.consuming is False
        assert 5 <= subscription.snapshot().main.generation <= 9
        refusals = rig.heard(SessionRefused)
        assert len(refusals) == subscription.snapshot().main.generation - 1
        assert all("ACCESS_REFUSED" in refusal.text for refusal in refusals)
        rig.broker.set_permissions()
        await trio.sleep(31)
        assert subscription.snapshot().main.consuming is True


@pytest.mark.parametrize("queue", [PARKING, QUARANTINE])
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-type": "classic", "x-message-ttl": 1_000},
        {"x-queue-type": "classic", "x-dead-letter-exchange": "elsewhere"},
        {"x-queue-type": "quorum"},
        {"x-queue-type": "classic", "x-max-length": 1},
    ],
)
async def test_a_sibling_that_could_lose_messages_is_refused(autojump_clock, rig, queue, arguments):
    """CHC-05: a parking or quarantine queue with other arguments is refused by name, nothing left running."""
    rig.broker.declare_queue(queue, arguments)
    error = await refused(rig)
    assert error.kind.value == "amqp"
    assert isinstance(error.source, TopologyRefused)
    assert queue in str(error)
    (different,) = [name for name, value in arguments.items() if value != "classic"]
    assert different in str(error)


async def test_an_equal_sibling_is_accepted(autojump_clock, rig):
    """CHC-05: a parking queue declared as classic, or with no arguments at all, is accepted."""
    rig.broker.declare_queue(PARKING)
    rig.broker.declare_queue(QUARANTINE, {"x-queue-type": "classic"})
    async with rig.subscribed() as subscription:
        assert subscription.snapshot().parking.consuming


async def test_the_queue_itself_may_differ(autojump_clock, rig):
    """A dead-letter queue others declared with other arguments is used, and said so."""
    rig.broker.declare_queue(QUEUE, {"x-queue-type": "classic", "x-max-length": 1_000})
    async with rig.subscribed() as subscription:
        rig.publish()
        await trio.sleep(1)
        assert subscription.statistics().acked == 1
    declined = rig.heard(TopologyDeclined)[0]
    assert (declined.what, "x-max-length" in declined.text) == (f"queue {QUEUE}", True)


async def test_no_permission_to_configure(autojump_clock, rig):
    """Without configure permission what stands is used after a passive look, and said so."""
    async with rig.subscribed() as subscription:
        subscription.shutdown()
    rig.events.clear()
    rig.broker.set_permissions(configure="nothing")
    async with rig.subscribed() as subscription:
        assert subscription.snapshot().main.consuming
    assert {event.what for event in rig.heard(TopologyDeclined)} >= {f"queue {PARKING}", f"queue {QUEUE}"}


async def test_no_permission_to_configure_what_is_missing(autojump_clock, rig):
    """Without configure permission a missing queue is a refusal."""
    rig.broker.set_permissions(configure="nothing")
    error = await refused(rig)
    assert isinstance(error.source, TopologyRefused)


async def test_a_quorum_parking_queue_of_unknown_limit_is_refused(autojump_clock, rig):
    """A quorum parking queue whose limit cannot be checked is DlqConfigError, not loss (decisions, 13)."""
    options = SubscriptionOptions(queue_type="quorum")
    async with rig.subscribed(options=options) as subscription:
        subscription.shutdown()
    rig.broker.set_permissions(configure="nothing")
    error = await refused(rig, options=options)
    assert error.kind.value == "config"
    assert isinstance(error.source, DlqConfigError)


@pytest.mark.parametrize("operation", ["open_channel", "declare", "bind", "consume"])
@pytest.mark.parametrize("action", [LoseConnection(), Raise(), Hang()])
async def test_any_step_of_a_start_may_fail(autojump_clock, rig, operation, action):
    """ROB-03: cut at any step of its start, a session is built again and consumes."""
    rig.broker.inject(FaultPlan([Fault(operation, action)]))
    options = SubscriptionOptions(start_timeout=60, rpc_timeout=5)
    async with rig.subscribed(options=options) as subscription:
        rig.publish()
        await trio.sleep(10)
        assert subscription.statistics().acked == 1
        assert len(rig.heard(SessionUp)) >= 2
    assert rig.broker.queue(QUEUE).consumers == 0
