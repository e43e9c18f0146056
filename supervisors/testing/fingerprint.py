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
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
import trio

from supervisors.context import ChildContext
from supervisors.flag import Flag
from supervisors.generations import Generations
from supervisors.mailbox import Timers
from supervisors.shutdown import Shutdown
from supervisors.spec import ChildSpec, SupervisorSpec
from supervisors.testing.virtual_time import trio_run

Arm: TypeAlias = "Callable[[_Digest, Any], object]"

_PLAIN = (type(None), bool, int, float, str, bytes)
_TELLING = (bool, int, float, BaseException)
_CALLABLE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)
_OPAQUE = (trio.lowlevel.Task, types.CoroutineType, types.ModuleType, types.TracebackType)
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
    status: Any = task._cancel_status  # noqa: SLF001
    scopes: list[object] = []
    while status is not None:
        scopes.append(_scope(digest, status._scope))  # noqa: SLF001
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
        ours = not code.co_filename.startswith(_TRIO_FILES)
        frames.append(
            [
                (name, digest.of(value))
                for name, value in frame.f_locals.items()
                if ours or isinstance(value, _TELLING)  # of Trio's own locals: what it will raise or return
            ]
        )
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return frames


class _Digest:
    """Turns objects into plain nested tuples; a mutable object met again is its number of first meeting."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def of(self, value: object) -> object:
        kind: type[object] = type(value)
        arm = _ARMS.get(kind)
        if arm is None:
            arm = _ARMS[kind] = _arm_for(kind)
        return arm(self, value)

    def once(self, value: Any, arm: Arm) -> object:
        number = self._met.get(id(value))
        if number is not None:
            return ("met", number)
        self._met[id(value)] = len(self._met)
        return type(value).__name__, arm(self, value)


def _arm_for(kind: type) -> Arm:
    """How to digest objects of one type; looked up once per type."""
    for base, arm in _BY_BASE:
        if issubclass(kind, base):
            return arm
    if hasattr(kind, "__fingerprint__"):
        return lambda digest, value: digest.once(value, lambda d, v: d.of(v.__fingerprint__()))
    if attrs.has(kind):
        names = [field.name for field in attrs.fields(kind)]
        return lambda digest, value: (
            kind.__name__,
            [digest.of(getattr(value, name, None)) for name in names],
        )
    slots = [name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())]
    return lambda digest, value: digest.once(
        value, lambda d, v: d.of((getattr(v, "__dict__", None), [getattr(v, name, None) for name in slots]))
    )


def _scope(_: _Digest, scope: Any) -> object:
    return "scope", scope._cancel_called, scope.deadline, scope.shield  # noqa: SLF001 - the property acts


def _mapping(digest: _Digest, value: Mapping[Any, Any]) -> object:
    return [(digest.of(key), digest.of(item)) for key, item in value.items()]


def _sequence(digest: _Digest, value: Any) -> object:
    return [digest.of(item) for item in value]


def _context(_: _Digest, value: ChildContext) -> object:
    return value.path, value.generation, value.shutdown.reason, value.abort is None


_ARMS: dict[type, Arm] = {}
_BY_BASE: tuple[tuple[type | tuple[type, ...], Arm], ...] = (
    (enum.Enum, lambda _, value: value.name),
    (_PLAIN, lambda _, value: value),
    (_CALLABLE, lambda _, value: getattr(value, "__qualname__", "?")),
    (_OPAQUE, lambda _, value: type(value).__name__),
    ((tuple, list, deque), _sequence),
    (Mapping, _mapping),
    ((set, frozenset), lambda digest, value: sorted(repr(digest.of(item)) for item in value)),
    (trio.Cancelled, lambda _, value: ("Cancelled", value.source)),  # its text holds a task's address
    (BaseException, lambda digest, value: (type(value).__name__, digest.of(value.args))),
    (trio.CancelScope, _scope),
    (trio.Nursery, lambda digest, value: digest.of(value._pending_excs)),  # noqa: SLF001 - raised at its end
    ((trio.Event, Flag), lambda _, value: value.is_set()),
    (trio.lowlevel.ParkingLot, lambda _, value: len(value)),
    (Shutdown, lambda _, value: value.reason),
    (Timers, lambda digest, value: digest.of(value.pending())),
    (ChildSpec, lambda _, value: value.id),
    (SupervisorSpec, lambda _, value: value.name),
    (ChildContext, _context),
    (Generations, lambda digest, value: digest.of((value.live(), list(value.hosted)))),
)
