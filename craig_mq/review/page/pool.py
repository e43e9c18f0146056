"""One table of nodes for many records: equal parts are stored once, so hundreds of runs fit one page.

A node is a scalar (itself), `[0, item...]` for a list or `[1, keys, value...]` for an object, where items,
keys and values are node numbers: all the page does to read one run back is look nodes up.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from craig_mq.review.page.moments import Moment


class Pool:
    """Interns JSON values; `nodes` is the table, `add` returns a value's number in it."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self._numbers: dict[object, int] = {}

    def add(self, value: object) -> int:
        """Return the node number of a JSON value; moments become their marks."""
        if isinstance(value, Mapping):
            record = cast("Mapping[str, object]", value)
            keys = self.add(sorted(record))
            return self._intern((1, keys, *(self.add(record[key]) for key in sorted(record))))
        if isinstance(value, Sequence) and not isinstance(value, str):
            return self._intern((0, *(self.add(item) for item in cast("Sequence[object]", value))))
        return self._intern(value.mark if isinstance(value, Moment) else value)

    def _intern(self, node: object) -> int:
        identity = (type(node), node)  # 1, True and "1" are three nodes
        if identity not in self._numbers:
            self._numbers[identity] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[identity]
