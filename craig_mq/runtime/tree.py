"""The supervisor tree of one subscription (supervision: linkage of the two arms).

Sampler, parking arm, main arm: started in this order, stopped in reverse, so main drains first. An arm
is a supervisor whose one child is the session. A session *returns* every end it can foresee, and is
restarted for ever; one that raises has met an error nobody foresaw, and takes the subscription down.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final

from craig_mq.core.config import SubscriptionOptions
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.observe.events import Arm, BackoffChanged
from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.depth import DepthSampler
from craig_mq.runtime.in_flight import InFlight
from craig_mq.runtime.intake import Intake
from craig_mq.runtime.live_session import LiveSession
from craig_mq.runtime.perform import Performer
from craig_mq.runtime.plan import Plan, SessionPlan, connection_options
from craig_mq.runtime.publication import DEFAULT_EXCHANGE
from craig_mq.runtime.queue_consumer import HANDLER_GRACE_S, QueueConsumer
from craig_mq.runtime.replayer import ParkingReplayer
from craig_mq.runtime.session import Session
from supervisors import Backoff, Body, ChildSpec, EndClass, SupervisorSpec, supervised
from supervisors.events import BackoffChosen, ChildMoved, Event
from supervisors.state import ChildState

ROOT = "subscription"
SESSION = "session"
_ARMS: Final[dict[str, Arm]] = {f"{ROOT}/main": "main", f"{ROOT}/parking": "parking"}
_CRASHES = frozenset({EndClass.FAILED})
_MARGIN_S = 1.0
"""How much later than what it watches over a deadline higher up falls."""


def subscription_tree(plan: Plan, parking: ArmMemory, main: ArmMemory) -> SupervisorSpec:
    """Return the tree: the depth sampler never takes the arms down, an arm's end takes everything down."""

    def consume(live: LiveSession) -> QueueConsumer[InFlight]:
        return QueueConsumer(live, Performer(plan, live), Intake[InFlight]())

    # What goes by the default exchange the main arm asks for, on behalf of both.
    returns_to = () if plan.options.return_route == "queue" else (DEAD_LETTER_EXCHANGE,)
    sampler = DepthSampler(
        plan.broker,
        connection_options(plan, "depth"),
        plan.topology.queues,
        plan.config.depth_sample_interval.total_seconds(),
        plan.reporter.emit,
        plan.gate.wait,
    )
    return SupervisorSpec(
        name=ROOT,
        children=(
            ChildSpec("depth", sampler.run, backoff=_backoff(plan.options), start_failure="retry"),
            arm_spec(plan, "parking", Session(plan, parking, partial(ParkingReplayer, plan), returns_to).run),
            arm_spec(plan, "main", Session(plan, main, consume, (DEFAULT_EXCHANGE,)).run),
        ),
        max_restarts=None,
    )


def arm_spec(plan: SessionPlan, name: Arm, session: Body) -> ChildSpec:
    """Return an arm: a supervisor whose one child is the session."""
    stop_s, drain_s = _stop_s(plan), _drain_s(plan)
    child = ChildSpec(
        SESSION,
        session,
        backoff=_backoff(plan.options),
        start_failure="retry",
        significant=True,
        drain_timeout_s=drain_s,
        stop_timeout_s=stop_s,
        on_stuck="abort",
        # Zero crashes are forgiven; the ends that a session returns are not counted, nor limited.
        max_restarts=0,
    )
    arm = SupervisorSpec(name=name, children=(child,), max_restarts=None, counted=_CRASHES)
    return ChildSpec(
        name,
        supervised(arm),
        start_failure="retry",
        significant=True,
        drain_timeout_s=drain_s + stop_s + _MARGIN_S,
        stop_timeout_s=stop_s + _MARGIN_S,
        max_restarts=0,
    )


@lru_cache
def _backoff(options: SubscriptionOptions) -> Backoff:
    """Return the law of every session with these options; most subscriptions share them."""
    base_s, cap_s = options.backoff_base.total_seconds(), options.backoff_cap.total_seconds()
    return Backoff(
        base_s=base_s,
        cap_s=cap_s,
        min_delay_s=min(0.05, cap_s),
        stable_after_s=options.stable_after.total_seconds(),
    )


def _stop_s(plan: SessionPlan) -> float:
    """After a cancel: settlements already begun are written, then the session is gone."""
    return (plan.options.settle_timeout + plan.options.abort_grace).total_seconds() + _MARGIN_S


def _drain_s(plan: SessionPlan) -> float:
    """The session bounds its own drain; this is only the bound on that."""
    options = plan.options
    closing = options.drain_timeout + options.settle_timeout + options.abort_grace + options.rpc_timeout
    return closing.total_seconds() + HANDLER_GRACE_S + _MARGIN_S


class BackoffReports:
    """Turns the tree's reports about waiting into the runtime's own event."""

    __slots__ = ("_plan",)

    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan

    def __call__(self, event: Event) -> None:
        """Observe one report of the tree."""
        arm = _ARMS.get(event.path)
        if arm is None:
            return
        if isinstance(event, BackoffChosen):
            self._emit(arm, event.delay_s)
        elif isinstance(event, ChildMoved) and event.before is ChildState.BACKOFF:
            self._emit(arm, 0.0)

    def _emit(self, arm: Arm, seconds: float) -> None:
        self._plan.reporter.emit(BackoffChanged(self._plan.queue, arm, seconds))
