"""A digest of all a Trio run still depends on: tasks with their stacks *and locals*, scopes, the clock.

Two runs with equal digests have equal futures, so the exploration may follow one of them only. What it must
not see (addresses, counters that only order) is left out; what it cannot see into is named by type. An
object may say what matters about it with a method ``__fingerprint__() -> object``.
"""

from __future__ import annotations

import enum
import hashlib
import marshal
import types
from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs
import trio

from supervisors.mailbox import Timers
from supervisors.spec import ChildSpec, SupervisorSpec
from supervisors.testing.schedule import trio_run

_PLAIN = (type(None), bool, int, float, str, bytes)
_CALLABLE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)
_OPAQUE = (trio.lowlevel.Task, trio.Nursery, types.CoroutineType, types.ModuleType, types.TracebackType)
_TRIO_FILES = trio.__file__.rpartition("/")[0]


def fingerprint(*extra: object) -> bytes:
    """16 bytes for the state of the running Trio loop and of ``extra``; call it between task steps."""
    runner: Any = trio_run.GLOBAL_RUN_CONTEXT.runner
    digest = _Digest()
    tasks = sorted(
        (task for task in runner.tasks if not task.name.startswith("<")),
        key=lambda task: (task.name, task._counter),  # noqa: SLF001 - spawn order breaks ties of equal names
    )
    state: Any = (runner.clock.current_time(), [_task(task, digest) for task in tasks], digest.of(extra))
    return hashlib.blake2b(marshal.dumps(state, 0), digest_size=16).digest()


def _task(task: Any, digest: _Digest) -> tuple[object, ...]:
    scheduled = task._next_send_fn is not None  # noqa: SLF001 - no public word for "runnable"
    status, scopes = task._cancel_status, []  # noqa: SLF001
    while status is not None:
        scopes.append(digest.of(status._scope))  # noqa: SLF001
        status = status.parent
    value = digest.of(task._next_send) if scheduled else None  # noqa: SLF001
    return task.name, scheduled, value, tuple(scopes), tuple(_stack(task.coro, digest))


def _stack(awaitable: Any, digest: _Digest) -> list[object]:
    frames: list[object] = []
    while awaitable is not None:
        frame = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        if frame is None:
            frames.append(type(awaitable).__name__)
            break
        code = frame.f_code
        frames.append((code.co_qualname, frame.f_lasti))
        if not code.co_filename.startswith(_TRIO_FILES):
            frames.append(digest.of(dict(sorted(frame.f_locals.items()))))
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return frames


class _Digest:
    """Turns objects into plain nested tuples; an object met again becomes its number of first meeting."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def of(self, value: Any) -> object:  # noqa: PLR0911 - one arm per kind
        if isinstance(value, enum.Enum):
            return value.name
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, _CALLABLE):
            return getattr(value, "__qualname__", "?")
        if isinstance(value, ChildSpec | SupervisorSpec):
            return value.id if isinstance(value, ChildSpec) else value.name
        if id(value) in self._met:
            return ("met", self._met[id(value)])
        self._met[id(value)] = len(self._met)
        if isinstance(value, _OPAQUE):
            return type(value).__name__
        if isinstance(value, tuple | list | deque):
            return tuple(self.of(item) for item in value)
        if isinstance(value, Mapping):
            return tuple((self.of(key), self.of(item)) for key, item in value.items())
        if isinstance(value, set | frozenset):
            return tuple(sorted(repr(self.of(item)) for item in value))
        return self._object(value)

    def _object(self, value: Any) -> object:  # noqa: PLR0911 - one arm per kind
        name = type(value).__name__
        own = getattr(value, "__fingerprint__", None)
        if own is not None:
            return name, self.of(own())
        if isinstance(value, BaseException):
            return name, self.of(value.args)
        if isinstance(value, trio.CancelScope):
            return name, value._cancel_called, value.deadline, value.shield  # noqa: SLF001 - the property acts
        if isinstance(value, trio.Event):
            return name, value.is_set()
        if isinstance(value, trio.lowlevel.ParkingLot):
            return name, len(value)
        if isinstance(value, Timers):
            return name, self.of(value.pending())
        if attrs.has(type(value)):
            fields = attrs.fields(type(value))
            return name, tuple(self.of(getattr(value, field.name, None)) for field in fields)
        return name, self.of(getattr(value, "__dict__", None))
