"""Modeled beside actual: what the fixture says of a run's parameters, and what the runtime did."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from craig_mq.live.handlers import Receive
from craig_mq.live.run import Ending, LiveRun
from craig_mq.review.events import MESSAGES, Delivered, Message, Reason
from craig_mq.review.model import Run, simulate
from craig_mq.review.outcomes import outcome
from craig_mq.review.snapshots import Status


@attrs.frozen
class Side:
    """One message in one of the two worlds. ``receives`` counts those of the first and the second cycle."""

    receives: tuple[int, int]
    reason: str | None
    effects: int
    dedup_hits: int
    key: str
    status: Status


@attrs.frozen
class Times:
    """The three marks of a run, in modeled seconds."""

    drained_at: float
    inspected_at: float
    end_at: float


@attrs.frozen
class Comparison:
    """A live run and the modeled run of the same parameters."""

    modeled_run: Run
    live: LiveRun

    @property
    def modeled_receives(self) -> tuple[Receive, ...]:
        """The model's deliveries in the shape of actual ones."""
        return tuple(_receive(event) for event in self.modeled_run.events if isinstance(event, Delivered))

    @property
    def modeled(self) -> dict[Message, Side]:
        """Each message as the fixture has it."""
        end = outcome(self.modeled_run)
        return {
            name: _side(
                name, self.modeled_receives, end["reason"][name], end["key"][name], end["status"][name]
            )
            for name in MESSAGES
        }

    @property
    def actual(self) -> dict[Message, Side]:
        """Each message as it was found."""
        return {name: self._found(name, self.live.endings[name]) for name in MESSAGES}

    def _found(self, name: Message, ending: Ending) -> Side:
        key = [receive.key for receive in self.live.receives if receive.message == name][-1]
        side = _side(name, self.live.receives, ending.error, key, ending.status)
        # Counted in the ledger's table, not in the handlers' log.
        return attrs.evolve(side, effects=sum(effect.intent == name for effect in self.live.effects))

    @property
    def modeled_times(self) -> Times:
        """The fixture's marks."""
        end = outcome(self.modeled_run)
        return Times(end["drained_at"], end["inspected_at"], end["end_at"])

    @property
    def actual_times(self) -> Times:
        """The run's marks."""
        return Times(self.live.drained_at, self.live.inspected_at, self.live.end_at)

    @property
    def agrees(self) -> bool:
        """Whether effects and end states are exactly the modeled ones."""
        return all(
            (self.actual[name].effects, self.actual[name].status, self.live.endings[name].copies)
            == (side.effects, side.status, side.status != "acked")
            for name, side in self.modeled.items()
        )


def compare(live: LiveRun) -> Comparison:
    """Put the model of the same parameters beside a live run."""
    return Comparison(simulate(live.params), live)


def _receive(event: Delivered) -> Receive:
    return Receive(
        event.at,
        event.message,
        event.key,
        event.cycle,
        event.cycle_receive,
        event.total_receive,
        event.result,
        event.failure,
    )


def _side(
    name: Message, receives: Iterable[Receive], reason: Reason | str | None, key: str, status: Status
) -> Side:
    own = [receive for receive in receives if receive.message == name]
    first = sum(receive.cycle == 1 for receive in own)
    effects = sum(receive.result == "effect" for receive in own)
    hits = sum(receive.result == "hit" for receive in own)
    return Side((first, len(own) - first), reason, effects, hits, key, status)
