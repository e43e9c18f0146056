"""What ``run()`` raises: the model's causes as exceptions, none lost (S14, S16, S17, S37, S50)."""

from __future__ import annotations

from typing import assert_never

from supervisors.errors import ChildError, IntensityError, StartError, StuckError
from supervisors.exits import EndRecord, error_of
from supervisors.state import Cause, Exhausted, FatalEnd, Outlived, OwnError, StartFailure, StopMode


def verdict(path: str, causes: tuple[Cause, ...], cancelled: BaseException | None) -> BaseException | None:
    """None for a clean stop; the only error bare; several in one group, the parent's Cancelled among them."""
    errors: list[BaseException] = [] if cancelled is None else [cancelled]
    errors.extend(_error(cause) for cause in causes)
    if len(errors) <= 1:
        return errors[0] if errors else None
    return BaseExceptionGroup(f"supervisor {path} ended", errors)


def _error(cause: Cause) -> BaseException:
    match cause:
        case FatalEnd(record):
            return error_of(record.end) or ChildError(record.child, record.generation, record.end)
        case Exhausted(owner, max_restarts, period_s, history):
            return _caused(IntensityError(owner, max_restarts, period_s, history), history)
        case StartFailure(record):
            return _caused(StartError(record.child, record.generation, record.end), (record,))
        case OwnError(record, mode):
            own = error_of(record.end)
            if mode is StopMode.CANCEL and own is not None:
                return own
            return _caused(ChildError(record.child, record.generation, record.end), (record,))
        case Outlived(child, generation, reports):
            return StuckError(child, generation, reports)
        case _:
            assert_never(cause)


def _caused(error: Exception, records: tuple[EndRecord, ...]) -> Exception:
    """``__cause__`` is the bodies' own error, or a group of them."""
    found = [own for own in (error_of(record.end) for record in records) if own is not None]
    if len(found) > 1:
        error.__cause__ = BaseExceptionGroup("what the children raised, oldest first", found)
    elif found:
        error.__cause__ = found[0]
    return error
