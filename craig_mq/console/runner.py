"""Carrying out a plan: one run at a time, its progress, its stop, and the account that stays."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import attrs
import trio

from craig_mq.console.asked import AskRedrive
from craig_mq.console.plans import Kept
from craig_mq.console.record import Record
from craig_mq.console.refused import Refused, refusals
from craig_mq.console.settings import ConsoleSettings
from craig_mq.operator.account import REMAINING, Account
from craig_mq.operator.errors import OperatorError
from craig_mq.operator.journal import open_journal
from craig_mq.operator.pace import Pace, parse_ramp
from craig_mq.operator.redrive import RedriveOptions, redrive_plan
from craig_mq.operator.trail import Act
from craig_mq.transport.broker import Broker
from craig_mq.transport.errors import TransportError
from supervisors.shutdown import Shutdown


@attrs.define(slots=True, eq=False)
class Run:
    """One run of one plan. ``failure`` is what kept it from going on; ``over`` is set when its task ends."""

    kept: Kept
    account: Account
    began: float
    stop: Shutdown = attrs.field(factory=Shutdown)
    over: trio.Event = attrs.field(factory=trio.Event)
    failure: str | None = None
    _before: int | None = None

    @property
    def ended(self) -> bool:
        """Whether its task is over."""
        return self.over.is_set()

    def note(self, account: Account) -> None:
        """Take the account as it stands."""
        if self._before is None:
            self._before = account.count(REMAINING) + 1
        self.account = account

    def document(self) -> dict[str, Any]:
        """The run in numbers and words; ``seconds_left`` at the speed so far."""
        left = self.account.count(REMAINING)
        done = (self._before or left) - left
        elapsed = trio.current_time() - self.began
        return {
            "plan": self.kept.sha256,
            "running": not self.ended,
            "stopping": self.stop.requested and not self.ended,
            "total": len(self.kept.plan.selected),
            "left": left,
            "seconds_left": round(left * elapsed / done) if done and not self.ended else None,
            "account": self.account.document(),
            "sentence": self.account.sentence(),
            "failure": self.failure,
        }


class Runner:
    """Runs plans in the nursery it is given, until ``stop`` asks or they are through."""

    def __init__(
        self, broker: Broker, settings: ConsoleSettings, record: Record, nursery: trio.Nursery
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._record = record
        self._nursery = nursery
        self.run: Run | None = None

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self.run is not None and not self.run.ended

    def require_idle(self) -> None:
        """Raise Refused while a run is under way."""
        if self.running:
            raise Refused(HTTPStatus.CONFLICT, "a redrive is running: wait for its end, or stop it")

    def begin(self, kept: Kept, asked: AskRedrive) -> Run:
        """Start carrying out ``kept`` if the word is right. Raises Refused."""
        self.require_idle()
        selected = len(kept.plan.selected)
        if asked.yes != selected:
            raise Refused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"the plan selects {selected} messages, not {asked.yes}: nothing was done",
            )
        if not asked.reason.strip():
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "say why: it is kept with the act")
        with refusals():
            options = self._options(kept, asked)
        account = Account.of(entry.key for entry in kept.plan.selected)
        self.run = Run(kept, account, trio.current_time())
        self._nursery.start_soon(self._carry_out, self.run, options, name=f"redrive {kept.path.name}")
        return self.run

    def stop(self, why: str) -> None:
        """Ask the run to end before its next message."""
        if self.run is not None:
            self.run.stop.request(why)

    def _options(self, kept: Kept, asked: AskRedrive) -> RedriveOptions:
        settings = self._settings
        return RedriveOptions(
            pace=Pace(parse_ramp(asked.pace)),
            stop_if_returned=asked.stop_if_returned,
            limit=settings.max_scan,
            accept_delivery_count=settings.accept_delivery_count,
            who=settings.who,
            reason=asked.reason.strip(),
            audit_url=settings.audit_url,
            plan_sha256=kept.sha256,
        )

    async def _carry_out(self, run: Run, options: RedriveOptions) -> None:
        """Run to the end; what stops it is one line on the page, and the rest stays where it is."""
        kept, act = run.kept, Act("redrive", run.kept.plan.source, options.who, options.reason)
        try:
            with (
                self._record.written(attrs.evolve(act, plan_sha256=kept.sha256)) as outcome,
                open_journal(kept.journal, plan_sha256=kept.sha256, now=self._settings.now) as journal,
            ):
                run.note(
                    await redrive_plan(
                        self._broker, kept.plan, journal, options, stop=run.stop, on_progress=run.note
                    )
                )
                outcome.update(run.account.document())
        except (OperatorError, TransportError) as error:
            run.failure = str(error)
        except OSError as error:
            run.failure = f"it can't be written down, so nothing more is done: {error.strerror or error}"
        finally:
            run.over.set()
        await trio.lowlevel.checkpoint()
