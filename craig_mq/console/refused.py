"""What the console answers when it does not do what it was asked."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from http import HTTPStatus

from craig_mq.audit.errors import AuditError
from craig_mq.operator.errors import (
    BadCondition,
    BadPlan,
    DeliveriesCounted,
    LedgerFailed,
    OperatorError,
    QueueInUse,
    QueueMissing,
)
from craig_mq.transport.errors import TransportError


class Refused(Exception):
    """One line for the operator, and the HTTP status it goes with."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


_STATUS = (
    (BadCondition | BadPlan, HTTPStatus.UNPROCESSABLE_ENTITY),
    (QueueMissing, HTTPStatus.NOT_FOUND),
    (QueueInUse | DeliveriesCounted, HTTPStatus.CONFLICT),
    (LedgerFailed | AuditError, HTTPStatus.SERVICE_UNAVAILABLE),
    (OperatorError | TransportError, HTTPStatus.BAD_GATEWAY),
)


@contextlib.contextmanager
def refusals() -> Generator[None]:
    """Turn known failures inside the block into Refused; anything else is a bug and passes."""
    try:
        yield
    except (OperatorError, AuditError, TransportError) as error:
        raise Refused(_status_of(error), str(error)) from error
    except (OSError, sqlite3.Error) as error:
        raise Refused(HTTPStatus.INSUFFICIENT_STORAGE, f"it can't be written down: {error}") from error


def _status_of(error: Exception) -> HTTPStatus:
    return next(status for kinds, status in _STATUS if isinstance(error, kinds))
