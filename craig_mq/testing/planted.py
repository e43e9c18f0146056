"""Ten bugs that a settlement runtime can have, planted into the shipped code to see them found.

``python -m craig_mq.testing.planted [--runs N]`` simulates each until some invariant breaks, and prints a
table: which seed, which invariant. A bug that survives all its runs fails the command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Final

import attrs
import click
import trio

from craig_mq.core import policy
from craig_mq.core.capture_format import MAX_CAPTURE_BYTES
from craig_mq.core.dead_letter import MalformedDelivery
from craig_mq.core.outcome import AckWritten
from craig_mq.core.policy import PARK
from craig_mq.core.steps import AckDelivery, Begin
from craig_mq.runtime import perform
from craig_mq.runtime.perform import Performer
from craig_mq.runtime.publishing import Publishing
from craig_mq.runtime.queue_consumer import QueueConsumer
from craig_mq.runtime.settler import Settler
from craig_mq.testing.simulate.evidence import Violation
from craig_mq.testing.simulate.runner import judge, scenario_of
from craig_mq.transport.memory.publisher import Publisher
from supervisors import ends
from supervisors.backoff import Counters

RUNS = 2_000


@attrs.define(frozen=True, slots=True)
class Planted:
    """One bug: ``bug`` makes what replaces ``owner.name`` from the original."""

    title: str
    owner: Any
    name: str
    bug: Callable[[Any], Any]

    @contextmanager
    def planted(self) -> Generator[None, None, None]:
        """Have the bug for the length of the block."""
        original = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.bug(original))
        try:
            yield
        finally:
            setattr(self.owner, self.name, original)


@attrs.define(frozen=True, slots=True)
class Found:
    """How a planted bug was found: the seed, after how many runs, and the invariant it broke."""

    seed: int
    runs: int
    violation: Violation


def hunt(bug: Planted, seeds: Iterable[int]) -> Found | None:
    """Simulate seed by seed with the bug planted; None if every run kept every invariant."""
    for runs, seed in enumerate(seeds, start=1):
        with bug.planted():
            _, violations = judge(scenario_of(seed))
        if violations:
            return Found(seed, runs, violations[0])
    return None


def _unheard(_: object) -> None:
    """Whatever became of that settlement, nobody listens."""


def _ack_before_confirm(original: Any) -> Any:
    def copy(self: Any, flight: Any) -> Any:
        self._live.settler.ack(flight.delivery.delivery_tag, _unheard)
        return original(self, flight)

    return copy


def _fifo_pairing(original: Any) -> Any:
    def tell_outcome(self: Any, publication: Any, outcome: Any, reply: Any) -> None:
        original(self, publication, outcome, next(iter(self._pending), reply))

    return tell_outcome


def _reset_on_connect(original: Any) -> Any:
    def after_end(backoff: Any, counters: Any, end: Any, ran_s: float | None) -> Any:
        return original(backoff, counters if ran_s is None else Counters(), end, ran_s)

    return after_end


def _session_overlap(original: Any) -> Any:
    async def run(self: Any) -> None:
        trio.lowlevel.spawn_system_task(original, self)
        await trio.lowlevel.checkpoint()

    return run


def _deaf_sleep(_: Any) -> Any:
    async def sleep(self: Any, flight: Any, seconds: float) -> None:
        await trio.sleep(seconds)
        self._performer.slept(flight)
        self._intake.resume(flight)

    return sleep


def _no_cap(original: Any) -> Any:
    def park(facts: Any) -> Any:
        return PARK if facts.canonical else original(facts)

    return park


def _raced_ack(original: Any) -> Any:
    def act(self: Any, flight: Any) -> None:
        if not (isinstance(flight.effect, AckDelivery) and self._live.shutdown.requested):
            original(self, flight)

    return act


def _late_ack(original: Any) -> Any:
    late: list[tuple[Any, int]] = []

    def ack(self: Any, delivery_tag: int, settled: Any) -> None:
        def heard(outcome: Any) -> None:
            if not isinstance(outcome, AckWritten):
                late.append((self, delivery_tag))
            settled(outcome)

        if late and late[0][0] is not self:
            original(self, late.pop(0)[1], _unheard)
        original(self, delivery_tag, heard)

    return ack


def _malformed_dropped(original: Any) -> Any:
    def begin(self: Any, delivery: Any) -> Any:
        flight = original(self, delivery)
        if isinstance(flight.subject, MalformedDelivery):
            flight.settlement = type(flight.settlement)(flight.settlement._facts)  # noqa: SLF001 - a bug knows no privacy
            flight.effect = flight.settlement.feed(Begin("confirmed_before"))
        return flight

    return begin


def _over_the_limit(original: Any) -> Any:
    def build(subject: Any, order: Any, *, limit: int) -> Any:
        return original(subject, order, limit=max(limit, MAX_CAPTURE_BYTES))

    return build


PLANTED: Final[tuple[Planted, ...]] = (
    Planted("ack before confirm", Performer, "copy", _ack_before_confirm),
    Planted("confirm by FIFO pairing", Publisher, "_tell_outcome", _fifo_pairing),
    Planted("reset of backoff on connect", ends, "after_end", _reset_on_connect),
    Planted("session overlap", Publishing, "run", _session_overlap),
    Planted("retry sleep deaf to shutdown", QueueConsumer, "_sleep", _deaf_sleep),
    Planted("park without cap", policy, "_park", _no_cap),
    Planted("ack raced against shutdown", Performer, "act", _raced_ack),
    Planted("late ack on a new channel", Settler, "ack", _late_ack),
    Planted("malformed dropped", Performer, "begin", _malformed_dropped),
    Planted("capture over the limit", perform, "build_capture", _over_the_limit),
)


@click.command()
@click.option("--runs", default=RUNS, show_default=True, help="How many runs each bug may survive.")
@click.option("--seed", default=0, show_default=True, help="The first seed.")
def main(runs: int, seed: int) -> None:
    """Plant ten bugs, one after the other, and show how the simulator finds each."""
    click.echo("| planted bug | found after | seed | invariant | what was seen |\n|---|---|---|---|---|")
    survived = 0
    for bug in PLANTED:
        found = hunt(bug, range(seed, seed + runs))
        if found is None:
            survived += 1
            click.echo(f"| {bug.title} | not within {runs} runs | | | |")
        else:
            seen = found.violation
            click.echo(f"| {bug.title} | {found.runs} runs | {found.seed} | {seen.invariant} | {seen.text} |")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
