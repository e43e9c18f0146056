"""The id -> child mapping, in declaration order, fed through ``step``. No clock, no task, no effect.

The running supervisor and the trace checker drive the same class: a replayed log cannot mean anything else.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from supervisors.actions import Effect, Seek
from supervisors.decide import step
from supervisors.inputs import Derived, Input, Reached, WalkOver, child_of
from supervisors.row import Row
from supervisors.spec import SupervisorSpec
from supervisors.state import Child, ChildState, Head


class Roster:
    """One supervisor's model state. ``path`` names it from the root."""

    __slots__ = ("_children", "_leaving", "_row", "head")

    def __init__(self, spec: SupervisorSpec, path: str, at: float) -> None:
        self.head = Head(spec, path)
        self._children: dict[str, Child] = {}
        self._row = Row()
        self._leaving: list[str] = []
        significant = 0
        for position, child in enumerate(spec.children):
            self._children[child.id] = Child(child, position, since=at)
            self._row.append(child.id, position)
            significant += child.significant
        self.head = attrs.evolve(
            self.head,
            significant=significant,
            significant_open=significant,
            next_position=len(spec.children),
        )

    def __getitem__(self, child: str) -> Child:
        return self._children[child]

    def __contains__(self, child: str) -> bool:
        return child in self._children

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Child]:
        """Every child, in declaration order."""
        return (self._children[child] for child in self._row)

    def feed(self, event: Input, at: float) -> list[Effect]:
        """One input and every walk step it sets off; the effects, in order.

        Raises ``IllegalInputError``, and changes nothing, for an input that cannot happen here.
        """
        effects: list[Effect] = []
        seek = self._apply(event, child_of(event), at, effects)
        while seek is not None:
            target = self._neighbour(seek)
            self._forget()
            derived = WalkOver() if target is None else Reached(target)
            seek = self._apply(derived, target, at, effects)
        self._forget()
        return effects

    def _apply(
        self, event: Input | Derived, name: str | None, at: float, effects: list[Effect]
    ) -> Seek | None:
        before = None if name is None else self._children.get(name)
        self.head, child, actions = step(self.head, before, event, at)
        seek: Seek | None = None
        for action in actions:
            if isinstance(action, Seek):
                seek = action
            else:
                effects.append(action)
        if child is not None and child is not before:
            self._store(child)
        return seek

    def _neighbour(self, seek: Seek) -> str | None:
        start = None if seek.start is None else self._children[seek.start].position
        target = self._row.neighbour(start, forward=seek.forward, inclusive=seek.inclusive)
        while target is not None and target in self._leaving:
            target = self._row.neighbour(self._children[target].position, forward=seek.forward)
        return target

    def _store(self, child: Child) -> None:
        name = child.spec.id
        if name not in self._children:
            self._row.append(name, child.position)
        self._children[name] = child
        if child.state is ChildState.REMOVED:
            self._leaving.append(name)

    def _forget(self) -> None:
        """Drop removed children, once no walk stands on them."""
        for name in self._leaving:
            self._row.remove(self._children.pop(name).position)
        self._leaving.clear()
