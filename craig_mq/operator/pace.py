"""How fast a redrive goes: one rate, or a ramp of rates held for a while each."""

from __future__ import annotations

import math
import re
from typing import Final

import attrs

from craig_mq.operator.errors import BadCondition

MAX_RATE: Final = 10_000.0
DEFAULT_RATE: Final = 10.0
RAMP_STEP_S: Final = 10.0

_RATE: Final = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(?:/(s|m))?")


@attrs.define(frozen=True, slots=True)
class Pace:
    """``rates`` are messages a second, each held for ``step_s`` seconds; the last one stays."""

    rates: tuple[float, ...] = (DEFAULT_RATE,)
    step_s: float = RAMP_STEP_S

    def __attrs_post_init__(self) -> None:
        if not self.rates or not all(0 < rate <= MAX_RATE for rate in self.rates):
            raise BadCondition(f"a rate is above 0 and at most {MAX_RATE:g} a second")

    def due(self, sent: int) -> float:
        """Seconds after the start at which message number ``sent`` (from 0) may go."""
        began = 0.0
        for rate in self.rates[:-1]:
            room = math.floor(rate * self.step_s)
            if sent < room:
                return began + sent / rate
            sent -= room
            began += self.step_s
        return began + sent / self.rates[-1]


def parse_rate(text: str) -> float:
    """Messages a second of ``10``, ``10/s`` or ``30/m``. Raises BadCondition."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise BadCondition(f"{text!r} is no rate: write 10/s or 30/m")
    return float(match[1]) / (60.0 if match[2] == "m" else 1.0)


def parse_ramp(text: str) -> tuple[float, ...]:
    """Rates of ``1,2,5,10``; a lone rate is a ramp of one. Raises BadCondition."""
    if "," not in text:
        return (parse_rate(text),)
    try:
        return tuple(parse_rate(part) for part in text.split(","))
    except BadCondition as error:
        raise BadCondition(
            f"{text!r} is no ramp: write rates with commas between, such as 1,2,5,10"
        ) from error
