"""Looking loses and reorders nothing."""

from functools import partial

import pytest
import trio
import trio.testing

from craig_mq.operator.errors import DeliveriesCounted, QueueInUse, QueueMissing
from craig_mq.operator.lease import lease_queue
from craig_mq.operator.scan import find_message, group_rows, scan_queue
from craig_mq.operator.where import parse_where
from craig_mq.testing import MemoryBroker, trace


async def test_a_scan_leaves_the_queue_as_it_was(autojump_clock, broker, ward, fill) -> None:
    """After a scan every message is ready again, in the same order, with nobody consuming."""
    bodies = fill(*(ward.capture(error=f"error {n % 3}") for n in range(50)), ward.malformed(), b"junk")
    scan = await scan_queue(broker, ward.quarantine, now_s=ward.now_s)
    view = broker.queue(ward.quarantine)
    assert view.bodies == bodies
    assert (view.unacked, view.consumers, broker.connections) == (0, 0, ())
    assert (scan.depth, scan.seen, scan.complete, len(scan.rows)) == (52, 52, True, 52)
    assert [row.position for row in scan.rows] == list(range(52))
    assert [row.redelivered for row in scan.rows] == [False] * 52


async def test_a_bounded_scan_says_that_it_did_not_see_all(autojump_clock, broker, ward, fill) -> None:
    """A scan of fewer messages than are ready is not complete, and still hands all of them back."""
    bodies = fill(*(ward.capture() for _ in range(9)))
    scan = await scan_queue(broker, ward.quarantine, now_s=ward.now_s, limit=4)
    assert (scan.seen, scan.complete) == (4, False)
    assert broker.queue(ward.quarantine).bodies == bodies


async def test_a_lease_ends_with_its_time(autojump_clock, broker, ward, fill) -> None:
    """After its time a lease gives nothing more; all goes back behind the cancel, the connection alive."""
    bodies = fill(*(ward.capture() for _ in range(3)))
    async with lease_queue(broker, ward.quarantine, seconds=540) as lease:
        assert await lease.receive() is not None
        await trio.sleep(541)
        assert await lease.receive() is None
        assert not lease.complete
    assert broker.queue(ward.quarantine).bodies == bodies
    ends = (trace.ConsumerEnded, trace.MessageRequeued, trace.ConnectionEnded)
    kinds = [type(record) for record in broker.trace if isinstance(record, ends)]
    assert kinds == [trace.ConsumerEnded, *[trace.MessageRequeued] * 3, trace.ConnectionEnded]


async def test_a_cancelled_scan_hands_everything_back(autojump_clock, broker, ward, fill) -> None:
    """Cancelling a lease in the middle requeues what it holds, in order, before the cancellation passes."""
    bodies = fill(*(ward.capture() for _ in range(5)))
    with trio.move_on_after(1) as scope:
        async with lease_queue(broker, ward.quarantine) as lease:
            await lease.receive()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert broker.queue(ward.quarantine).bodies == bodies


async def test_two_leases_of_one_queue_exclude_each_other(autojump_clock, broker, ward, fill) -> None:
    """The second lease is refused with the conflict named, and the first goes on undisturbed."""
    bodies = fill(ward.capture())
    async with lease_queue(broker, ward.quarantine) as lease:
        with pytest.raises(QueueInUse, match=r"security\.dlq\.quarantine is in use"):
            await scan_queue(broker, ward.quarantine, now_s=ward.now_s)
        assert (await lease.receive()) is not None
    assert broker.queue(ward.quarantine).bodies == bodies


async def test_a_patient_lease_waits_for_the_other_to_let_go(autojump_clock, broker, ward, fill) -> None:
    """Asked for with patience, a queue in use is leased once it is free, or refused when patience ends."""
    bodies = fill(ward.capture(), ward.capture())
    async with trio.open_nursery() as nursery:

        async def hold() -> None:
            async with lease_queue(broker, ward.quarantine) as lease:
                await lease.receive()
                await trio.sleep(20)

        nursery.start_soon(hold)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        with pytest.raises(QueueInUse):
            await scan_queue(broker, ward.quarantine, now_s=ward.now_s, patience_s=10)
        assert 10 <= trio.current_time() - began < 11
        scan = await scan_queue(broker, ward.quarantine, now_s=ward.now_s, patience_s=30)
        assert 20 <= trio.current_time() - began < 22
    assert (scan.depth, scan.seen, scan.complete) == (2, 2, True)
    assert broker.queue(ward.quarantine).bodies == bodies


async def test_a_queue_that_is_missing_is_named_and_not_created(autojump_clock) -> None:
    """A scan of a queue that does not exist says so and creates none."""
    broker = MemoryBroker()
    with pytest.raises(QueueMissing, match="there is no queue nowhere"):
        await scan_queue(broker, "nowhere", now_s=0)
    assert broker.queues == ()


async def test_a_quorum_queue_is_refused_unless_its_counting_is_accepted(autojump_clock, ward) -> None:
    """Looking at a quorum queue counts as a take, so it needs the operator's word."""
    broker = MemoryBroker()
    broker.declare_queue("q", {"x-queue-type": "quorum", "x-delivery-limit": 5})
    broker.publish("", "q", ward.capture())
    with pytest.raises(DeliveriesCounted, match="counts towards its delivery limit"):
        await scan_queue(broker, "q", now_s=ward.now_s)
    scan = await scan_queue(broker, "q", now_s=ward.now_s, accept_delivery_count=True)
    assert len(scan.rows) == 1
    assert broker.queue("q").ready == 1


async def test_filters_and_groups_follow_the_captures_fields(autojump_clock, broker, ward, fill) -> None:
    """A scan selects by the captures' fields, and groups put numbers in error texts aside."""
    fill(*(ward.capture(error=f"row {n} too long", age_s=n * 60) for n in range(6)))
    fill(ward.malformed(), b"junk", ward.capture(error="Timeout", event_type="user.created", token=False))
    look = partial(scan_queue, broker, ward.quarantine, now_s=ward.now_s)
    groups = group_rows((await look()).rows)
    assert [(group.reason, group.rows) for group in groups] == [
        ("permanent", 6),
        ("malformed", 1),
        ("no_capture", 1),
        ("permanent", 1),
    ]
    for where, expected in (
        (("reason=permanent",), 7),
        (("error~TIMEOUT",), 1),
        (("token=none", "reason!=malformed", "reason!=no_capture"), 1),
        (("age>=3m", "reason=permanent", "error~row"), 3),
        (("event_type=user.created",), 1),
        (("size>1MiB",), 0),
        (("park_count=0", "error~row"), 6),
    ):
        assert len((await look(where=parse_where(where))).rows) == expected, where


async def test_one_message_is_found_by_capture_envelope_or_token(autojump_clock, broker, ward, fill) -> None:
    """A message is shown by the beginning of its capture id, by its envelope id or by its token."""
    bodies = fill(*(ward.capture() for _ in range(3)))
    wanted = ward.read(bodies[1])
    for key in (wanted.capture_id, str(wanted.occurrence_token)):
        found = await find_message(broker, ward.quarantine, key)
        assert found is not None
        assert found[1].body == bodies[1]
    assert await find_message(broker, ward.quarantine, "nothing") is None
    assert broker.queue(ward.quarantine).bodies == bodies
