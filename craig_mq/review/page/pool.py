"""One table of nodes for many records: equal parts are stored once, so hundreds of runs fit one page.

A node is a scalar (itself), `[0, item...]` for a list or `[1, keys, value...]` for an object, where items,
keys and values are node numbers: all the page does to read one run back is look nodes up.
"""

from typing import cast

from craig_mq.review.page.moments import Moment


class Pool:
    """Interns JSON values; `nodes` is the table, `add` returns a value's number in it."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self._numbers: dict[object, int] = {}

    def add(self, value: object) -> int:
        """Return the node number of a JSON value; moments become their marks."""
        if isinstance(value, dict):
            record = cast("dict[str, object]", value)
            keys = tuple(sorted(record))
            return self._intern((1, self.add(keys), *[self.add(record[key]) for key in keys]))
        if isinstance(value, list | tuple):
            return self._intern((0, *map(self.add, cast("list[object]", value))))
        return self._intern(value.mark if isinstance(value, Moment) else value)

    def _intern(self, node: object) -> int:
        identity = (type(node), node)  # 1, True and "1" are three nodes
        number = self._numbers.setdefault(identity, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
        return number
