"""What ends a subscription, or keeps it from starting."""

from __future__ import annotations

import enum


class SubscribeErrorKind(enum.Enum):
    """Whose fault a refused subscription is: the configuration's, or what the broker said (ADR-059 §config)."""

    CONFIG = "config"
    AMQP = "amqp"


class SubscribeDlqError(Exception):
    """The subscription did not start; nothing is left running. ``source`` is what refused it."""

    def __init__(self, kind: SubscribeErrorKind, source: Exception) -> None:
        """Speak with the source's text, which names the field, or the queue and the argument."""
        super().__init__(f"{kind.value}: {source}")
        self.kind = kind
        self.source = source


class StartTimedOut(Exception):  # noqa: N818 - a bound that passed, named like trio's own TooSlowError
    """Neither arm's failure was a refusal, and ``start_timeout`` passed before both consumed."""


class HandlerTimedOut(Exception):  # noqa: N818 - as above
    """A handler was cancelled after ``handler_timeout`` seconds; its delivery is parked."""

    def __init__(self, seconds: float) -> None:
        """Say how long it was given."""
        super().__init__(f"the handler was cancelled after {seconds:g} s")
        self.seconds = seconds


class SubscriptionCrashed(ExceptionGroup[Exception]):
    """An arm ended by an error nobody foresaw: every cause, none dropped (linkage of the arms)."""
