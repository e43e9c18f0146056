"""The closed set of child ends, and the one place that classifies them (S13-S17)."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TypeAlias, cast

import attrs
import trio

from supervisors.errors import SettlementError


class EndClass(enum.Enum):
    """The six classes, in order of precedence: the first that applies names the end (S15)."""

    FATAL = "fatal"
    CANCELLED = "cancelled"
    SETTLEMENT_FAILED = "settlement failed"
    FAILED = "failed"
    DRAINED = "drained"
    COMPLETED = "completed"


@attrs.frozen
class SettlementFailed:
    """A settlement failed. A body returns it (or raises ``SettlementError``); it feeds k (S27)."""

    detail: object = None

    @property
    def end_class(self) -> EndClass:
        """Its class."""
        return EndClass.SETTLEMENT_FAILED


@attrs.frozen
class Failed:
    """Any other abnormal end: ``detail`` is what the body raised, or what it returned in ``Failed(...)``."""

    detail: object = None

    @property
    def end_class(self) -> EndClass:
        """Its class."""
        return EndClass.FAILED


@attrs.frozen
class StartTimedOut:
    """The detail of a start that did not report within ``seconds`` (S61); ``own``: the body's own detail."""

    seconds: float
    own: object = None


@attrs.frozen
class Fatal:
    """A leaf that is no ``Exception`` (KeyboardInterrupt, SystemExit, …): never restarted (S17)."""

    error: BaseException

    @property
    def end_class(self) -> EndClass:
        """Its class."""
        return EndClass.FATAL


@attrs.frozen
class Cancelled:
    """A cancel for this generation was issued before its end was read. ``beside``: its own error, if any."""

    reason: str
    beside: SettlementFailed | Failed | None = None

    @property
    def end_class(self) -> EndClass:
        """Its class."""
        return EndClass.CANCELLED


@attrs.frozen
class Drained:
    """The body returned after a drain was requested of it."""

    @property
    def end_class(self) -> EndClass:
        """Its class."""
        return EndClass.DRAINED


@attrs.frozen
class Completed:
    """The body returned, unasked."""

    @property
    def end_class(self) -> EndClass:
        """Its class."""
        return EndClass.COMPLETED


End: TypeAlias = Fatal | Cancelled | SettlementFailed | Failed | Drained | Completed


@attrs.frozen
class Returned:
    """What the body returned."""

    value: object = None


@attrs.frozen
class Raised:
    """What the body raised, groups whole."""

    error: BaseException


@attrs.frozen
class Interrupted:
    """The child's own scope was cancelled and swallowed the body's Cancelled."""


Outcome: TypeAlias = Returned | Raised | Interrupted


@attrs.frozen
class EndRecord:
    """One counted end: ``at`` on Trio's clock, in seconds."""

    at: float
    child: str
    generation: int
    end: End


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Every leaf of an error, depth first; a bare error is its own leaf (S16)."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error


def classify(outcome: Outcome, *, cancel_reason: str | None, draining: bool) -> End:
    """Name the end of one generation.

    ``cancel_reason`` is the reason of a cancel that was issued before the end was read, else None: it is
    never inferred from the exception. ``draining`` says whether a drain was requested of the child.
    """
    own = _own_end(outcome, draining=draining)
    if isinstance(own, Fatal) or cancel_reason is None:
        return own
    return Cancelled(cancel_reason, own if isinstance(own, SettlementFailed | Failed) else None)


def _own_end(outcome: Outcome, *, draining: bool) -> Fatal | SettlementFailed | Failed | Drained | Completed:
    if isinstance(outcome, Raised):
        return _raised(outcome.error)
    if isinstance(outcome, Returned) and isinstance(outcome.value, SettlementFailed | Failed):
        return outcome.value
    return Drained() if draining else Completed()


def _raised(error: BaseException) -> Fatal | SettlementFailed | Failed:
    found = list(leaves(error))
    if any(not isinstance(leaf, Exception | trio.Cancelled) for leaf in found):
        return Fatal(error)
    for leaf in found:
        if isinstance(leaf, SettlementError):
            return SettlementFailed(leaf.detail if len(found) == 1 else error)
    return Failed(error)


def error_of(end: End) -> BaseException | None:
    """The exception an end carries, if it carries one."""
    if isinstance(end, Fatal):
        return end.error
    if isinstance(end, Cancelled):
        return None if end.beside is None else error_of(end.beside)
    detail = end.detail if isinstance(end, SettlementFailed | Failed) else None
    if isinstance(detail, StartTimedOut):
        detail = detail.own
    return detail if isinstance(detail, BaseException) else None


def is_abnormal(end: End) -> bool:
    """True for the ends a transient child is restarted after (S18)."""
    return isinstance(end, SettlementFailed | Failed)
