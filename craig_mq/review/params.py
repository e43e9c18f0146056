"""The nine parameters of the experiment: one table of domains, one frozen value.

The table drives validation, the command line, the share URL and the page's form, so a bound is written once.
Values are never clamped: anything outside its domain is a `ParameterError`.
"""

import re
import reprlib
from collections.abc import Mapping
from typing import Any, Final, Literal, Self, cast

from attrs import field, fields_dict, frozen

Action = Literal["hold", "all", "poison", "uncertain"]
Identity = Literal["stable", "new"]
Value = int | bool | str

_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_MAX_SHOWN_BITS: Final = 128
_SWITCH_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}


class ParameterError(ValueError):
    """A parameter is unknown, of the wrong type or out of bounds.

    `field` names the parameter, `value` is what was given, `bounds` is what is allowed: `(low, high)` for
    numbers, every allowed value for choices and switches, the known names for an unknown parameter.
    """

    def __init__(self, field: str, value: object, bounds: tuple[Value, ...], allowed: str) -> None:
        self.field = field
        self.value = value
        self.bounds = bounds
        super().__init__(f"{field} must be {allowed}, not {_shown(value)}")


def _shown(value: object) -> str:
    """Return a short text of any value; a huge integer has no decimal text at all."""
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    return reprlib.repr(value)


@frozen
class WholeNumber:
    """Integers from `low` to `high`, both included; `listed` are the choices a form suggests."""

    low: int
    high: int
    listed: tuple[int, ...]
    unit: str = ""

    @property
    def bounds(self) -> tuple[Value, ...]:
        """The smallest and the largest value."""
        return (self.low, self.high)

    @property
    def allowed(self) -> str:
        """The domain in words, for an error's sentence."""
        return f"a whole number from {self.low} to {self.high}"

    def holds(self, value: object) -> bool:
        """Whether `value` is an integer (never a bool) within the bounds."""
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def read(self, text: str) -> object:
        """The number a text means, or the text itself where it means none."""
        return int(text) if _WHOLE.fullmatch(text) else text

    def write(self, value: Value) -> str:
        """The text `read` turns back into `value`."""
        return str(value)


@frozen
class Choice:
    """One of a few names, each with the words a form shows for it."""

    words: Mapping[str, str]

    @property
    def listed(self) -> tuple[Value, ...]:
        """Every allowed name, in form order."""
        return tuple(self.words)

    @property
    def bounds(self) -> tuple[Value, ...]:
        """Every allowed name."""
        return tuple(self.words)

    @property
    def allowed(self) -> str:
        """The domain in words, for an error's sentence."""
        return "one of " + ", ".join(self.words)

    def holds(self, value: object) -> bool:
        """Whether `value` is one of the names."""
        return isinstance(value, str) and value in self.words

    def read(self, text: str) -> object:
        """The text itself: names are spelled the same everywhere."""
        return text

    def write(self, value: Value) -> str:
        """The text `read` turns back into `value`."""
        return str(value)


@frozen
class Switch:
    """True or false; 1 and 0 in a URL."""

    listed: tuple[bool, ...] = (True, False)
    bounds: tuple[Value, ...] = (False, True)
    allowed: str = "true or false"

    def holds(self, value: object) -> bool:
        """Whether `value` is a bool, not merely truthy."""
        return isinstance(value, bool)

    def read(self, text: str) -> object:
        """The bool a text means, or the text itself where it means none."""
        return _SWITCH_WORDS.get(text, text)

    def write(self, value: Value) -> str:
        """The text `read` turns back into `value`."""
        return "1" if value else "0"


@frozen
class Parameter:
    """One row of the table: the field of `Params`, its share-URL key, its form label and its domain."""

    name: str
    key: str
    label: str
    domain: WholeNumber | Choice | Switch = field()

    @property
    def default(self) -> Value:
        """The value a new experiment starts with."""
        return cast("Value", fields_dict(Params)[self.name].default)

    def check(self, value: object) -> None:
        """Raise `ParameterError` unless the domain holds `value`."""
        if not self.domain.holds(value):
            raise ParameterError(self.name, value, self.domain.bounds, self.domain.allowed)


PARAMETERS: Final = (
    Parameter("max_receives", "n", "Maximum receives per cycle", WholeNumber(1, 6, (1, 2, 3, 4, 5, 6))),
    Parameter("retry_interval", "r", "Retry interval", WholeNumber(0, 60, (1, 5, 10, 20, 30, 60), "s")),
    Parameter("operator_wait", "w", "Operator wait", WholeNumber(0, 300, (0, 10, 20, 30, 50, 60, 120), "s")),
    Parameter(
        "action",
        "a",
        "Operator action",
        Choice(
            {
                "hold": "Hold all",
                "all": "Redrive all retained messages",
                "poison": "Redrive only poison",
                "uncertain": "Redrive only uncertain",
            }
        ),
    ),
    Parameter("repair", "fix", "Repair before redrive", Switch()),
    Parameter("dedup", "d", "Deduplicate committed intent keys", Switch()),
    Parameter(
        "identity",
        "id",
        "Redrive identity",
        Choice({"stable": "Stable redrive identity", "new": "New identity on redrive"}),
    ),
    Parameter("result_retention", "rr", "Result retention", WholeNumber(0, 300, (0, 30, 60, 120), "s")),
    Parameter(
        "quarantine_retention", "qr", "Quarantine retention", WholeNumber(0, 300, (30, 60, 120, 300), "s")
    ),
)
BY_NAME: Final = {parameter.name: parameter for parameter in PARAMETERS}


@frozen(kw_only=True)
class Params:
    """One experiment's parameters; times in modeled seconds. Raises `ParameterError` on construction."""

    max_receives: int = 2
    retry_interval: int = 5
    operator_wait: int = 20
    action: Action = "all"
    repair: bool = True
    dedup: bool = True
    identity: Identity = "stable"
    result_retention: int = 60
    quarantine_retention: int = 120

    def __attrs_post_init__(self) -> None:
        """Refuse what the table does not allow."""
        for parameter in PARAMETERS:
            parameter.check(getattr(self, parameter.name))

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> Self:
        """Build from names and typed values; raises `ParameterError`, for an unknown name too."""
        for name, value in values.items():
            if name not in BY_NAME:
                raise ParameterError(
                    name, value, tuple(BY_NAME), "a known parameter (" + ", ".join(BY_NAME) + ")"
                )
        return cls(**cast("dict[str, Any]", dict(values)))  # construction checks the real types

    @classmethod
    def from_text(cls, values: Mapping[str, str]) -> Self:
        """Build from names and texts (a command line); raises `ParameterError`."""
        return cls.from_values(
            {
                name: BY_NAME[name].domain.read(text) if name in BY_NAME else text
                for name, text in values.items()
            }
        )

    def as_dict(self) -> dict[str, Value]:
        """Return name -> value in table order."""
        return {parameter.name: getattr(self, parameter.name) for parameter in PARAMETERS}
