"""The restart budget: a pure sliding window over counted ends (S36)."""

from __future__ import annotations

from typing import Final

import attrs

from supervisors.exits import EndRecord


@attrs.frozen
class Window:
    """The counted ends of the last period, oldest first; never more than ``max_restarts + 1`` of them."""

    records: tuple[EndRecord, ...] = ()

    def add(self, record: EndRecord, max_restarts: int | None, period_s: float) -> Window:
        """The window with one more end; ends older than the period (inclusive) have left it.

        ``max_restarts=None`` never gives up, so it keeps nothing.
        """
        if max_restarts is None:
            return self
        recent = tuple(old for old in self.records if record.at - old.at <= period_s)
        return Window((*recent, record))

    def exceeded(self, max_restarts: int | None) -> bool:
        """True when there are more than ``max_restarts``; exactly as many are allowed."""
        return max_restarts is not None and len(self.records) > max_restarts


NO_ENDS: Final = Window()
