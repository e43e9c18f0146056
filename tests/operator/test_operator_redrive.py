"""Redriving exactly a plan, on the embedded broker."""

import uuid
from functools import partial

import attrs
import pytest
import trio

from craig_mq import Disposition, DlqError, subscribe_dlq
from craig_mq.core.capture_format import QuarantineReason
from craig_mq.operator.errors import QueueInUse
from craig_mq.operator.lease import lease_queue
from craig_mq.operator.pace import Pace
from craig_mq.operator.plan import Ticks
from craig_mq.operator.redrive import RedriveOptions
from craig_mq.testing import Fault, FaultPlan, Hang, LoseConnection, Nack, trace
from supervisors.shutdown import Shutdown


async def test_exactly_the_plan_goes_back(autojump_clock, broker, desk, ward, fill) -> None:
    """The planned messages are redriven in order, and every other one stays in its place."""
    bodies = fill(*(ward.capture(error=f"error {'ab'[n % 3 == 0]}") for n in range(60)), ward.malformed())
    plan = await desk.plan("error=error b")
    account = await desk.redrive(plan)
    wanted = [body for n, body in enumerate(bodies[:-1]) if n % 3 == 0]
    assert desk.redriven == ward.ids(wanted)
    assert desk.quarantined == tuple(body for body in bodies if body not in wanted)
    assert account.document() == {
        "plan": 20,
        "redriven": 20,
        "returned": 0,
        "remaining": 0,
        "skipped": {},
        "uncertain": 0,
        "stopped": None,
    }
    assert account.sentence().startswith("plan 20 = redriven 20 + returned 0 + skipped 0 + remaining 0")


async def test_a_message_is_acked_only_after_its_confirm(autojump_clock, broker, desk, ward, fill) -> None:
    """Of every redriven capture the broker sees publish, confirm and ack in this order."""
    fill(*(ward.capture() for _ in range(5)))
    await desk.redrive(await desk.plan())
    kinds = (trace.MessagePublished, trace.OutcomeTold, trace.MessageAcked)
    seen = [record for record in broker.trace if isinstance(record, kinds) and record.connection]
    assert [type(record) for record in seen] == [*kinds] * 5
    published = [record.publication for record in seen if isinstance(record, trace.MessagePublished)]
    assert {(one.exchange, one.routing_key) for one in published} == {("craig.dlx", "dlq.svc.a")}
    assert {one.properties.delivery_mode for one in published} == {2}
    assert len({one.properties.message_id for one in published}) == 5


async def test_a_failing_observer_costs_the_run_nothing(
    autojump_clock, broker, desk, ward, fill, caplog
) -> None:
    """An observer that raises is logged; every planned message is redriven and told of, once."""
    fill(*(ward.capture() for _ in range(3)))
    told: list[object] = []

    def fail(event: object) -> None:
        told.append(event)
        raise OSError("the gauge is gone")

    account = await desk.redrive(await desk.plan(), options=attrs.evolve(desk.fast, observer=fail))
    assert (account.document()["redriven"], account.document()["remaining"]) == (3, 0)
    assert len(told) == len(desk.redriven) == 3
    assert [record.message for record in caplog.records if record.exc_info] == [
        "the observer failed for a redriven message; the run goes on"
    ] * 3


async def test_malformed_captures_are_left_out(autojump_clock, broker, desk, ward, fill) -> None:
    """What is malformed, foreign or cannot return is planned as not redrivable and never selected."""
    bodies = fill(
        ward.malformed(), b"junk", ward.capture(key="other.key", reason=QuarantineReason.NONCANONICAL_ROUTE)
    )
    plan = await desk.plan(ticks=Ticks(may_duplicate=True, will_return=True))
    assert [entry.verdict for entry in plan.entries] == ["not redrivable"] * 3
    assert plan.selected == ()
    account = await desk.redrive(plan)
    assert account.document()["plan"] == 0
    assert desk.quarantined == bodies


async def test_unroutable_messages_stay_and_are_reported(autojump_clock, broker, desk, ward, fill) -> None:
    """RET-04 (b): with dlq.# unbound a redrive of three reports three failures, and all three stay."""
    bodies = fill(*(ward.capture() for _ in range(3)))
    broker.unbind("craig.dlx", ward.queue, "dlq.#")
    plan = await desk.plan()
    account = await desk.redrive(plan, options=attrs.evolve(desk.fast, stop_if_returned=100.0))
    assert account.document()["returned"] == 3
    assert desk.quarantined == bodies
    # Without a percentage the first failure stops the run, and once bound again the plan goes on.
    account = await desk.redrive(plan)
    assert (account.document()["returned"], account.document()["remaining"]) == (1, 2)
    assert "NO_ROUTE" in account.stopped
    broker.bind("craig.dlx", ward.queue, "dlq.#")
    assert (await desk.redrive(plan)).document()["redriven"] == 3


async def test_too_many_returned_stop_the_run(autojump_clock, broker, desk, ward, fill) -> None:
    """With a percentage a run goes on over few failures and stops when they are more than allowed."""
    fill(*(ward.capture(key="dlq.lost" if n >= 10 else "dlq.svc.a") for n in range(40)))
    broker.unbind("craig.dlx", ward.queue, "dlq.#")
    broker.bind("craig.dlx", ward.queue, "dlq.svc.#")
    account = await desk.redrive(await desk.plan(), options=attrs.evolve(desk.fast, stop_if_returned=20.0))
    found = account.document()
    assert (found["redriven"], found["returned"], found["remaining"]) == (10, 3, 27)
    assert "3 of 13 failed, more than 20 %" in found["stopped"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("publish", Nack(), name="craig.dlx"), "nack"),
        (Fault("publish", Hang(), name="craig.dlx"), "outcome unknown, a copy may be there already"),
        (Fault("publish", LoseConnection(), name="craig.dlx"), "outcome unknown"),
        (
            Fault("connect", LoseConnection(), connection="craig_mq operator: redrive to craig.dlx"),
            "no publishing",
        ),
    ],
    ids=["nack", "no confirm", "connection lost", "no connection"],
)
async def test_what_is_not_confirmed_stays(autojump_clock, broker, desk, ward, fill, fault, words) -> None:
    """Anything but a clean confirm keeps the capture, in its place, and stops the run with the reason."""
    bodies = fill(*(ward.capture() for _ in range(3)))
    plan = await desk.plan()
    broker.inject(FaultPlan((fault,)))
    account = await desk.redrive(plan)
    assert words in account.stopped
    assert account.document()["remaining"] == 3
    assert desk.quarantined == bodies
    broker.inject(None)
    assert (await desk.redrive(plan)).document()["redriven"] == 3
    assert desk.quarantined == ()


async def test_a_lost_ack_leads_to_no_second_publish(autojump_clock, broker, desk, ward, fill) -> None:
    """A capture confirmed but not acked is only acked by the next run of the same journal."""
    fill(*(ward.capture() for _ in range(2)))
    plan = await desk.plan()
    broker.inject(FaultPlan((Fault("ack", LoseConnection(), name=ward.quarantine),)))
    account = await desk.redrive(plan)
    assert "the ack failed" in account.stopped or "ended the lease" in account.stopped
    assert len(desk.quarantined) == 2
    broker.inject(None)
    account = await desk.redrive(plan)
    assert account.document()["redriven"] == 2
    assert sorted(desk.redriven) == sorted(entry.key for entry in plan.selected)
    assert desk.quarantined == ()


async def test_a_redriven_message_that_fails_again_is_quarantined_again(
    autojump_clock, broker, desk, ward, fill
) -> None:
    """RET-07: a redrive goes to craig.dlx under the ORIGINAL key, so a second failure quarantines again."""
    [body] = fill(ward.capture(parks=0))
    copies: list[int] = []

    async def handler(letter) -> None:
        copies.append(broker.queue(ward.queue).unacked + len(desk.quarantined))
        await trio.lowlevel.checkpoint()
        raise DlqError(Disposition.PERMANENT, source=ValueError("still wrong"))

    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(partial(subscribe_dlq, broker, queue=ward.queue, handler=handler))
        await desk.redrive(await desk.plan())
        await trio.sleep(5)
        subscription.shutdown()
    [again] = desk.quarantined
    before, after = ward.read(body), ward.read(again)
    assert after.capture_id != before.capture_id
    assert (after.original_routing_key, after.occurrence_token) == ("dlq.svc.a", before.occurrence_token)
    assert (after.park_count, after.redrive_count) == (0, 1)
    assert copies == [1]


async def test_a_run_never_chases_its_own_output(autojump_clock, broker, desk, ward, fill) -> None:
    """CLI-04: while every redriven message fails again, a run moves at most the depth seen at its start."""
    fill(*(ward.capture() for _ in range(25)))

    async def handler(letter) -> None:
        await trio.lowlevel.checkpoint()
        raise DlqError(Disposition.PERMANENT, source=ValueError("still wrong"))

    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(partial(subscribe_dlq, broker, queue=ward.queue, handler=handler))
        for number in (1, 2):
            plan = await desk.plan()
            account = await desk.redrive(plan, journal=f"journal {number}")
            await trio.sleep(5)
            assert account.document()["redriven"] == 25
            assert subscription.statistics().quarantined == 25 * number
        subscription.shutdown()
    counts = {(one.park_count, one.redrive_count) for one in map(ward.read, desk.quarantined)}
    assert counts == {(0, 2)}


async def test_a_stop_comes_between_two_messages(autojump_clock, desk, ward, fill) -> None:
    """CLI-01: a run asked to stop finishes the message in hand, and moved plus remaining is the plan."""
    fill(*(ward.capture() for _ in range(10)))
    plan, stop = await desk.plan(), Shutdown()
    async with trio.open_nursery() as nursery:

        async def interrupt() -> None:
            await trio.sleep(4.5)
            stop.request("SIGTERM")

        nursery.start_soon(interrupt)
        account = await desk.redrive(plan, options=RedriveOptions(pace=Pace((1.0,))), stop=stop)
    found = account.document()
    assert (found["redriven"], found["remaining"], found["uncertain"]) == (5, 5, 0)
    assert found["stopped"] == "asked to stop: SIGTERM"
    assert len(desk.quarantined) == 5
    assert (await desk.redrive(plan)).document()["redriven"] == 10


async def test_a_slow_plan_takes_several_windows(autojump_clock, broker, desk, ward, fill) -> None:
    """No lease lasts ten minutes: a slow plan goes on in the next one, each closed by a give-back."""
    bodies = fill(*(ward.capture(error="ab"[n % 2]) for n in range(60)))
    account = await desk.redrive(await desk.plan("error=a"), options=RedriveOptions(pace=Pace((1 / 60,))))
    assert account.document()["redriven"] == 30
    assert desk.quarantined == bodies[1::2]
    ended = [record.at for record in broker.trace if isinstance(record, trace.ConsumerEnded)]
    began = [record.at for record in broker.trace if isinstance(record, trace.ConsumerStarted)]
    assert len(began) == 1 + 4
    assert max(end - start for start, end in zip(began, ended, strict=True)) < 600


async def test_two_operators_cannot_redrive_the_same_capture(
    autojump_clock, broker, desk, ward, fill
) -> None:
    """A second run is refused while the first holds the queue, and afterwards finds the messages gone."""
    fill(*(ward.capture() for _ in range(4)))
    plan = await desk.plan()
    async with lease_queue(broker, ward.quarantine):
        with pytest.raises(QueueInUse):
            await desk.redrive(plan, journal="second")
    assert (await desk.redrive(plan)).document()["redriven"] == 4
    account = await desk.redrive(plan, journal="second")
    assert account.document()["skipped"] == {"no longer in the queue": 4}
    assert len(desk.redriven) == 4


async def test_a_message_whose_content_changed_is_left_alone(autojump_clock, desk, ward, fill) -> None:
    """A capture id under which other bytes lie now is skipped, with the reason in the account."""
    [body] = fill(ward.capture())
    plan = await desk.plan()
    desk.broker.purge(ward.quarantine)
    [changed] = fill(body.replace(b"too long", b"too wide"))
    account = await desk.redrive(plan)
    assert account.document()["skipped"] == {"its content is not what was planned": 1}
    assert desk.quarantined == (changed,)


async def test_a_new_identity_is_a_new_token(autojump_clock, broker, desk, ward, fill) -> None:
    """With identity new the redriven wrapper carries a token of its own, else the original one."""
    [body] = fill(ward.capture())
    await desk.redrive(await desk.plan(new_identity=True))
    [sent] = broker.queue(ward.queue).bodies
    token = ward.read(sent).occurrence_token
    assert token not in {None, ward.read(body).occurrence_token}
    assert uuid.UUID(ward.read(sent).capture_id)
