"""What ends a subscription, or keeps it from starting."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

from supervisors import SupervisorError
from supervisors.exits import leaves


class SubscribeErrorKind(enum.Enum):
    """Who refused a subscription: its configuration, or the broker (ADR-059 §config)."""

    CONFIG = "config"
    AMQP = "amqp"


class SubscribeError(Exception):
    """The subscription did not start; nothing is left running. ``source`` is what refused it."""

    def __init__(self, kind: SubscribeErrorKind, source: Exception) -> None:
        """Speak with the source's text, which names the field, or the queue and the argument."""
        super().__init__(f"{kind.value}: {source}")
        self.kind = kind
        self.source = source


class SubscribeDlqError(SubscribeError):
    """A subscription to a dead-letter queue did not start (ADR-059 §config)."""


class StartTimedOut(Exception):
    """No failure was a refusal, and ``start_timeout`` passed before every arm consumed."""


class HandlerTimedOut(Exception):
    """A handler was cancelled after ``handler_timeout`` seconds; its delivery is parked."""

    def __init__(self, seconds: float) -> None:
        """Say how long it was given."""
        super().__init__(f"the handler was cancelled after {seconds:g} s")
        self.seconds = seconds


class SubscriptionCancelled(Exception):
    """``wait_closed`` raises this where the subscription's own task was cancelled."""


class SubscriptionCrashed(ExceptionGroup[Exception]):
    """An arm ended by an error nobody foresaw: every cause, none dropped (linkage of the arms)."""

    def derive(self, excs: Sequence[Exception], /) -> SubscriptionCrashed:  # type: ignore[override]
        """Stay of this type when a nursery splits the group it travels in."""
        return SubscriptionCrashed(self.message, excs)


def crash_of(error: Exception) -> SubscriptionCrashed:
    """Find the bodies' own errors under what the supervisor tree raised, which stays their cause."""
    crash = SubscriptionCrashed("the subscription ended unexpectedly", list(_roots(error)))
    crash.__cause__ = error
    return crash


def _roots(error: BaseException) -> Iterator[Exception]:
    for leaf in leaves(error):
        if isinstance(leaf, SupervisorError) and leaf.__cause__ is not None:
            yield from _roots(leaf.__cause__)
        elif isinstance(leaf, Exception):
            yield leaf
