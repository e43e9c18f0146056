"""Ids in order, with O(1) neighbours, appends and removals: what a walk over the children needs."""

from __future__ import annotations

from collections.abc import Iterator


class Row:
    """A doubly linked row of ids. None stands for either end."""

    def __init__(self) -> None:
        self._next: dict[str | None, str | None] = {None: None}
        self._previous: dict[str | None, str | None] = {None: None}

    def append(self, name: str) -> None:
        """Put ``name`` at the end. It must be new."""
        last = self._previous[None]
        self._next[last], self._next[name] = name, None
        self._previous[None], self._previous[name] = name, last

    def remove(self, name: str) -> None:
        """Take ``name`` out."""
        before, after = self._previous.pop(name), self._next.pop(name)
        self._next[before] = after
        self._previous[after] = before

    def neighbour(self, name: str | None, *, forward: bool, inclusive: bool = False) -> str | None:
        """The next id in a direction; ``name`` itself if ``inclusive``. None: from, or at, the end."""
        if inclusive and name is not None:
            return name
        return (self._next if forward else self._previous)[name]

    def __iter__(self) -> Iterator[str]:
        name = self._next[None]
        while name is not None:
            yield name
            name = self._next[name]
