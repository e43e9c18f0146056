"""What may be a handler: looked at before anything is dialled, so that no message meets a wrong one."""

from __future__ import annotations

import inspect
from functools import partial
from typing import cast

from craig_mq.core.errors import DlqConfigError

_WANTED = "an async function of one argument"


def validate_handler(handler: object) -> None:
    """Check that a handler is async and takes one argument, as far as it can be told. Raises DlqConfigError.

    A plain ``def`` would be called, with all its effects, before its result proves to be no awaitable; one
    of two arguments would fail on every message, and park them all. A callable object is trusted to return
    an awaitable; what has no signature is trusted to take the argument.
    """
    called = handler
    while isinstance(called, partial):
        called = cast("object", called.func)
    if not callable(handler) or inspect.isclass(called):
        raise DlqConfigError("handler", handler, _WANTED)
    if (inspect.isfunction(called) or inspect.ismethod(called)) and not inspect.iscoroutinefunction(called):
        hint = "; wrap what returns an awaitable in an `async def` that awaits it"
        raise DlqConfigError("handler", handler, _WANTED + hint)
    try:
        # Its own arguments, not those of what it wraps: a decorator may add or take some.
        signature = inspect.signature(handler, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - looking at it runs its own code, too; no signature is no error
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise DlqConfigError("handler", handler, f"{_WANTED}; called with one, it has {error}") from None
