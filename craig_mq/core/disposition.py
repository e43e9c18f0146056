"""What a handler decides about a failure (ADR-059 §error taxonomy).

The handler sees the concrete error and chooses; craig_mq never downcasts or string-matches a
source. Whatever says nothing is TRANSIENT_PARK: the fail-safe default.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Generic, TypeVar, cast

E = TypeVar("E")


class Disposition(enum.Enum):
    """What should become of a delivery whose handler failed; the value is the name on the wire."""

    TRANSIENT_RETRY = "transient_retry"
    TRANSIENT_PARK = "transient_park"
    PERMANENT = "permanent"

    # Members are equal only to themselves; Enum's own hash is a Python call for every failure.
    __hash__ = object.__hash__


class DlqError(Exception, Generic[E]):
    """Raised by a handler to choose a disposition; ``source`` keeps its concrete type.

    Use as ``raise DlqError(Disposition.PERMANENT, source=error) from error``.
    """

    def __init__(self, disposition: Disposition, *, source: E) -> None:
        """Refuse anything but a Disposition: a misspelt choice must not become a silent park."""
        if not isinstance(disposition, Disposition):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"disposition must be a Disposition, not {type(disposition).__name__}")
        super().__init__(disposition, source)
        self.disposition = disposition
        self.source: E = source

    def __str__(self) -> str:
        """Speak with the text of the source: this is what a capture records as last_error."""
        return str(self.source)


def disposition_of(error: BaseException) -> Disposition:
    """Return the disposition an exception out of a handler stands for (field failure EXG-01).

    A group means PERMANENT only if every leaf is ``DlqError(PERMANENT)``, TRANSIENT_RETRY only if
    every leaf says so, else TRANSIENT_PARK. Cancellation, KeyboardInterrupt and SystemExit are not
    outcomes: ask ``interruption_in`` first and re-raise what it returns.
    """
    if not isinstance(error, BaseExceptionGroup):
        return _choice(error)
    group = cast("BaseExceptionGroup[BaseException]", error)
    chosen = {_choice(leaf) for leaf in _leaves(group)}
    return chosen.pop() if len(chosen) == 1 else Disposition.TRANSIENT_PARK


def interruption_in(error: BaseException) -> BaseException | None:
    """Return the part of ``error`` that is no handler outcome and must be re-raised, or None.

    That is a bare BaseException such as ``trio.Cancelled``, or the sub-group holding such leaves.
    """
    if isinstance(error, Exception):
        return None  # a group that is an Exception holds nothing else
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).split(Exception)[1]
    return error


def _choice(leaf: BaseException) -> Disposition:
    if not isinstance(leaf, DlqError):
        return Disposition.TRANSIENT_PARK
    try:
        chosen: object = leaf.disposition
    except Exception:  # noqa: BLE001 - a subclass may compute it, and fail
        return Disposition.TRANSIENT_PARK
    # Nothing keeps a handler from assigning another value after the constructor has checked it.
    if isinstance(chosen, Disposition):  # pyright: ignore[reportUnnecessaryIsInstance]
        return chosen
    return Disposition.TRANSIENT_PARK


def _leaves(error: BaseException) -> Iterator[BaseException]:
    # Iterative: a handler may nest groups deeper than the interpreter recurses.
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop()
        if isinstance(current, BaseExceptionGroup):
            pending.extend(cast("BaseExceptionGroup[BaseException]", current).exceptions)
        else:
            yield current
