"""Seconds that remember how they were made: a * retry interval + b * operator wait + c * result retention.

The model only adds, subtracts and compares its times, so running it on moments gives the very same run, with
each time also readable as its coefficients. Runs that differ only in those numbers then share one record.
"""

from typing import Final, Self

from craig_mq.review.params import Params

_MARKS: Final = ("⟨", "⟩")


class Moment(int):
    """An integer second with its coefficients; formats as a `⟨a,b,c⟩` mark, compares as the number it is."""

    coefficients: tuple[int, int, int]

    @classmethod
    def of(cls, value: int, *coefficients: int) -> Self:
        """Return a moment worth `value` seconds."""
        moment = cls(value)
        a, b, c = coefficients
        moment.coefficients = (a, b, c)
        return moment

    def __add__(self, other: int) -> "Moment":
        return self._combined(other, 1)

    __radd__ = __add__

    def __sub__(self, other: int) -> "Moment":
        return self._combined(other, -1)

    def _combined(self, other: int, sign: int) -> "Moment":
        """Add or subtract another moment; the only plain integer a run adds is the zero it starts at."""
        theirs = other.coefficients if isinstance(other, Moment) else (0, 0, 0)
        mine = self.coefficients
        sums = (mine[i] + sign * theirs[i] for i in range(3))
        return Moment.of(int(self) + sign * int(other), *sums)

    def __repr__(self) -> str:
        return self.mark

    def __format__(self, format_spec: str) -> str:
        """Return the mark, whatever the format: the page fills in the number."""
        return self.mark

    @property
    def mark(self) -> str:
        """The coefficients as the page reads them."""
        return _MARKS[0] + ",".join(map(str, self.coefficients)) + _MARKS[1]


def on_moments(params: Params) -> Params:
    """Return the same parameters with the three times as moments."""
    return Params(
        max_receives=params.max_receives,
        retry_interval=Moment.of(params.retry_interval, 1, 0, 0),
        operator_wait=Moment.of(params.operator_wait, 0, 1, 0),
        action=params.action,
        repair=params.repair,
        dedup=params.dedup,
        identity=params.identity,
        result_retention=Moment.of(params.result_retention, 0, 0, 1),
        quarantine_retention=params.quarantine_retention,
    )
