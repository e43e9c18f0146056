"""A user's mistake is one line that says what to do next; only a bug of ours shows a traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import click

from craig_mq.audit.errors import AuditError, StoreUrlError
from craig_mq.operator.connecting import sole
from craig_mq.operator.errors import BadCondition, BadPlan, OperatorError
from craig_mq.operator.status import BadAddress
from craig_mq.runtime.errors import SubscribeError, SubscribeErrorKind
from craig_mq.service.health import AddressInUse
from craig_mq.service.settings import SettingsError
from craig_mq.transport.errors import ConnectError, TransportError
from craig_mq.transport.url import BrokerUrlError

USAGE = 2
FAILURE = 1


class Refusal(click.ClickException):
    """One line on stderr and an exit code: 2 for what the caller said, 1 for what the world did."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = exit_code  # click declares it for the class, and reads it from the instance


@contextlib.contextmanager
def plain_errors() -> Generator[None]:
    """Turn known failures inside the block into a Refusal; anything else is a bug and passes."""
    try:
        with _bare():
            yield
    except (BrokerUrlError, SettingsError, AddressInUse) as error:
        raise Refusal(str(error), USAGE) from error
    except OperatorError as error:
        usage = isinstance(error, BadCondition | BadPlan | BadAddress)
        raise Refusal(str(error), USAGE if usage else FAILURE) from error
    except SubscribeError as error:
        usage = error.kind is SubscribeErrorKind.CONFIG
        hint = "" if usage else _hint(error.source)
        raise Refusal(f"cannot subscribe: {error.source}{hint}", USAGE if usage else FAILURE) from error
    except TransportError as error:
        raise Refusal(f"broker: {error}{_hint(error)}", FAILURE) from error
    except AuditError as error:
        raise Refusal(str(error), USAGE if isinstance(error, StoreUrlError) else FAILURE) from error


@contextlib.contextmanager
def _bare() -> Generator[None]:
    """Take a failure out of the group that the nursery around it made."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise sole(group) from None


def _hint(error: BaseException) -> str:
    if isinstance(error, ConnectError):
        return "; check that the broker runs, and the URL's host, port, user and virtual host"
    return ""
