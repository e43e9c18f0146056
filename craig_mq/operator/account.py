"""What became of each message of a plan; the counts add up to the plan by construction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import attrs

REDRIVEN: Final = "redriven"
RETURNED: Final = "returned"
REMAINING: Final = "remaining"


@attrs.define(slots=True, eq=False)
class Account:
    """One outcome for every key of the plan: redriven, returned, remaining, or why it was skipped.

    ``uncertain`` counts publishes whose outcome nobody knows: as many second copies may exist, with the
    same capture_id and token. ``stopped`` says why the run ended early, None if it went through.
    """

    _outcomes: dict[str, str]
    uncertain: int = 0
    stopped: str | None = None

    @classmethod
    def of(cls, keys: Iterable[str]) -> Account:
        """Begin with everything remaining."""
        return cls(dict.fromkeys(keys, REMAINING))

    def note(self, key: str, outcome: str) -> None:
        """Give a key of the plan its outcome. Raises KeyError for any other key."""
        if key not in self._outcomes:
            raise KeyError(key)
        self._outcomes[key] = outcome

    def remaining(self) -> set[str]:
        """The keys without an outcome."""
        return {key for key, outcome in self._outcomes.items() if outcome == REMAINING}

    def count(self, outcome: str) -> int:
        """How many keys have this outcome."""
        return sum(one == outcome for one in self._outcomes.values())

    def document(self) -> dict[str, Any]:
        """The account as JSON: plan = redriven + returned + the sum of skipped + remaining."""
        counts = Counter(self._outcomes.values())
        return {
            "plan": len(self._outcomes),
            "redriven": counts.pop(REDRIVEN, 0),
            "returned": counts.pop(RETURNED, 0),
            "remaining": counts.pop(REMAINING, 0),
            "skipped": dict(counts.most_common()),
            "uncertain": self.uncertain,
            "stopped": self.stopped,
        }

    def sentence(self) -> str:
        """The account in one line."""
        found = self.document()
        skipped: dict[str, int] = found["skipped"]
        why = f" ({', '.join(f'{count} {reason}' for reason, count in skipped.items())})" if skipped else ""
        return (
            f"plan {found['plan']} = redriven {found['redriven']} + returned {found['returned']}"
            f" + skipped {sum(skipped.values())}{why} + remaining {found['remaining']}"
            f"; outcome unknown {found['uncertain']}"
        )
