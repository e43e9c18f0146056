"""The experiment on a real RabbitMQ, in short intervals."""

import pytest
import trio

from craig_mq.live.comparison import compare
from craig_mq.live.differences import named_differences, unexplained
from craig_mq.live.stages import run_rabbitmq
from craig_mq.review.lessons import LESSONS

pytestmark = pytest.mark.broker

ON_RABBITMQ = ("default", "new-identity", "dedup-off", "result-gone")


async def test_lessons_end_as_modeled_on_rabbitmq(vhost_url):
    """Default, new identity, no deduplication and an expired result end with the modeled effects."""
    compared = {}

    async def play(lesson):
        compared[lesson.name] = compare(await run_rabbitmq(vhost_url, lesson.params))

    async with trio.open_nursery() as nursery:
        for lesson in LESSONS:
            if lesson.name in ON_RABBITMQ:
                nursery.start_soon(play, lesson)
    assert {name: one.agrees for name, one in compared.items()} == dict.fromkeys(ON_RABBITMQ, True)
    assert {name: unexplained(one) for name, one in compared.items()} == dict.fromkeys(ON_RABBITMQ, ())
    names = {difference.name for one in compared.values() for difference in named_differences(one)}
    assert {"a lost ack ends its session", "written is not received", "time passes"} <= names
