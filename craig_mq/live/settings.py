"""The review's parameters as settings of the real runtime, and how long a modeled second lasts.

A receive is a delivery that reaches the handler, and what separates two receives is a park: only the
parking TTL waits ``retry_interval`` exactly. Tries inside a session (``handler_attempts``) wait 100 ms
times their number plus chance, and end in a park of their own, so here each delivery gets one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import attrs

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.review.params import Params

SHORTEST_PARK_S: Final = 1.0
_LONGEST: Final = timedelta(hours=1)
_INSTANT_S: Final = 60.0
_REAL_SECOND_S: Final = 0.3


@attrs.frozen
class Settings:
    """``second_s`` is how many seconds of Trio's clock one modeled second lasts.

    ``whole_seconds``: the clock that the handlers and the operator read counts modeled seconds only in
    whole ones, as the fixture does.
    """

    second_s: float
    whole_seconds: bool
    config: DlqRetryConfig
    options: SubscriptionOptions

    def modeled(self, elapsed_s: float) -> float:
        """Modeled seconds of so many seconds on Trio's clock."""
        modeled = elapsed_s / self.second_s
        return float(round(modeled)) if self.whole_seconds else modeled


def settings_for(params: Params, *, virtual: bool) -> Settings:
    """Map the parameters; ``virtual`` time costs nothing, real time is kept short.

    An interval of zero becomes the shortest park there is, one second. In virtual time it is a
    sixtieth of a modeled second, so that ten of them still lie inside one.
    """
    interval = params.retry_interval
    second_s = _virtual_second_s(interval) if virtual else _real_second_s(interval)
    park_s = max(SHORTEST_PARK_S, interval * second_s)
    return Settings(
        second_s,
        virtual,
        DlqRetryConfig(
            parking_ttl=park_s,
            park_cap=max(1, params.max_receives - 1),
            handler_attempts=1,
            depth_sample_interval=_LONGEST,
        ),
        # A lost ack is redelivered to the next session, so the backoff is the interval, and never grows:
        # with so long a stable_after every end counts as an early one.
        SubscriptionOptions(
            prefetch=1, concurrency=1, backoff_base=park_s, backoff_cap=park_s, stable_after=_LONGEST
        ),
    )


def _virtual_second_s(interval: int) -> float:
    return 1.0 if interval else _INSTANT_S


def _real_second_s(interval: int) -> float:
    return max(SHORTEST_PARK_S / interval, _REAL_SECOND_S) if interval else _REAL_SECOND_S
