"""When an event first failed for good, so that its copies carry one dead letter's token.

A dead letter whose confirm was lost is made again after the redelivery; an event whose own publish had
an unknown outcome may lie in the queue twice. Each such copy is the same terminal failure, and its
token and ``_dlx`` follow from the moment of that failure: remembered, the ledger absorbs the copy.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from craig_mq.core.last_error import LastError

SAME_FAILURE_WITHIN_S = 3_600.0
MAX_FIRST_FAILURES = 1_000


class FirstFailures:
    """Moments of terminal failures in one queue, over its sessions. Bounded, the oldest are forgotten.

    The same bytes failing with the same error within an hour of the first time are one failure. Outside
    of that, and in another process, the same event's failure is a new occurrence: the disclosed bound.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def moment(self, body: bytes, error: LastError, now_s: float) -> float:
        """Return when this failed first, which is ``now_s`` unless it is remembered (seconds, Unix epoch)."""
        key = hashlib.sha256(f"{error.type}\n{error.sha256}\n".encode() + body).digest()
        first_s = self._seen.get(key)
        if first_s is None or abs(now_s - first_s) >= SAME_FAILURE_WITHIN_S:
            first_s = self._seen[key] = now_s
        self._seen.move_to_end(key)
        if len(self._seen) > MAX_FIRST_FAILURES:
            self._seen.popitem(last=False)
        return first_s
