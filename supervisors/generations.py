"""The live generations: one task and one shielded scope each. It carries out; the model decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from supervisors.context import ChildContext, Nested
from supervisors.events import Event, HookRaised, Observer
from supervisors.exits import Interrupted, Outcome, Raised, Returned
from supervisors.inputs import Ended, Input, Started
from supervisors.spec import ChildSpec

_INTERRUPTED: Final = Interrupted()


class Generations:
    """Starts, drains, cancels and aborts generations inside the supervisor's nursery."""

    __slots__ = ("_live", "_nursery", "_observe", "_observer", "_on_change", "_path", "_post", "hosted")

    def __init__(
        self,
        *,
        path: str,
        nursery: trio.Nursery,
        post: Callable[[Input], None],
        on_change: Callable[[], None],
        observe: Callable[[Event], None],
        observer: Observer | None,
    ) -> None:
        self._path = path
        self._nursery = nursery
        self._post = post
        self._on_change = on_change
        self._observe = observe
        self._observer = observer
        self._live: dict[str, tuple[ChildContext, trio.CancelScope]] = {}
        self.hosted: dict[str, Nested] = {}

    def start(self, spec: ChildSpec, generation: int) -> None:
        """Start a generation. It is shielded from the outside: only its supervisor cancels it (S5)."""

        def on_started(value: object) -> None:
            self._post(Started(spec.id, generation, value))

        path = f"{self._path}/{spec.id}"
        context = ChildContext(
            id=spec.id,
            path=path,
            generation=generation,
            on_started=on_started,
            on_change=self._on_change,
            observer=self._observer,
            hosted=self.hosted,
        )
        scope = trio.CancelScope(shield=True)
        self._live[spec.id] = (context, scope)
        self._nursery.start_soon(self._run, spec, context, scope, name=f"{path}#{generation}")

    def drain(self, child: str, reason: str) -> None:
        """Request the generation's graceful token."""
        if (live := self._live.get(child)) is not None:
            live[0].shutdown.request(reason)

    def cancel(self, child: str, reason: str) -> None:
        """Cancel the generation's scope. One that has ended meanwhile is left alone."""
        if (live := self._live.get(child)) is not None:
            live[1].cancel(reason=reason)

    def abort(self, child: str) -> None:
        """Call the generation's abort hook, if it set one. What the hook raises is reported, not followed."""
        live = self._live.get(child)
        if live is None or live[0].abort is None:
            return
        try:
            live[0].abort()
        except Exception as error:  # noqa: BLE001 - user code; reported below
            self._observe(HookRaised(self._path, trio.current_time(), child, error))

    def cancel_all(self, reason: str) -> None:
        """Cancel every live generation, last started first (S51)."""
        for _, scope in reversed(self._live.values()):
            scope.cancel(reason=reason)

    def live(self) -> list[str]:
        """The children that have a generation now, in the order they started."""
        return list(self._live)

    def nested(self, child: str) -> Nested | None:
        """The supervisor that runs as this child's body, if one does."""
        return self.hosted.get(child)

    async def _run(  # noqa: ASYNC910 - a body without a checkpoint is the body's own affair
        self, spec: ChildSpec, context: ChildContext, scope: trio.CancelScope
    ) -> None:
        outcome: Outcome = _INTERRUPTED
        try:
            with scope:
                outcome = Returned(await spec.run(context))
        except BaseException as error:  # noqa: BLE001, ASYNC103 - the end is data, classified by the model
            outcome = Raised(error)
        del self._live[spec.id]
        self.hosted.pop(spec.id, None)
        self._post(Ended(spec.id, context.generation, outcome))
