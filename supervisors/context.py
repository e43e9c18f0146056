"""What a child's body sees of its supervisor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from supervisors.events import Observer
from supervisors.shutdown import Shutdown
from supervisors.tree import SupervisorSnapshot


class Nested(Protocol):
    """A supervisor running as the body of a child: what its parent shows of it."""

    @property
    def ready(self) -> bool:
        """S12, for the whole subtree."""
        ...

    def snapshot(self) -> SupervisorSnapshot:
        """Its part of the tree."""
        ...


class ChildContext:
    """One generation of one child. ``path`` names the child from the root.

    ``shutdown`` is this generation's graceful token. It is requested when the supervisor's drain reaches this
    child, in reverse declaration order, not when the supervisor's own drain is accepted (S46).
    """

    __slots__ = (
        "_hosted",
        "_on_started",
        "abort",
        "generation",
        "id",
        "observer",
        "on_change",
        "path",
        "shutdown",
    )

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the spec's own word
        path: str,
        generation: int,
        on_started: Callable[[object], None],
        on_change: Callable[[], None],
        observer: Observer | None,
        hosted: dict[str, Nested],
    ) -> None:
        self.id = id
        self.path = path
        self.generation = generation
        self.shutdown = Shutdown()
        self.observer = observer
        self.on_change = on_change
        self.abort: Callable[[], None] | None = None
        self._hosted = hosted
        self._on_started: Callable[[object], None] | None = on_started

    def started(self, value: object = None) -> None:
        """Report this generation ready (S8). Synchronous; ``value`` goes to the caller of ``start_child``.

        Raises RuntimeError if called twice.
        """
        if self._on_started is None:
            raise RuntimeError(f"{self.path}: started() was called twice in generation {self.generation}")
        report, self._on_started = self._on_started, None
        report(value)

    def host(self, nested: Nested) -> None:
        """Show ``nested``, the supervisor this body runs, in the parent's readiness and snapshots."""
        self._hosted[self.id] = nested

    def set_abort(self, hook: Callable[[], None]) -> None:
        """Give the last rung something to pull: a synchronous call that ends a stuck generation (S50)."""
        self.abort = hook
