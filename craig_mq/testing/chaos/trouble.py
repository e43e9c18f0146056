"""A trouble: made and undone by one call, named as the table of guarantees names it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

import attrs

from craig_mq.testing.chaos.stage import Stage

Place: TypeAlias = Literal["node", "cluster"]
EVERYWHERE: Final[frozenset[Place]] = frozenset(("node", "cluster"))
ONE_NODE: Final[frozenset[Place]] = frozenset(("node",))
CLUSTER: Final[frozenset[Place]] = frozenset(("cluster",))


@attrs.define(frozen=True, slots=True)
class Trouble:
    """``make`` does it, lets it last, undoes it; ``places`` says whether on one node or in a cluster."""

    name: str
    make: Callable[[Stage], Awaitable[None]]
    places: frozenset[Place] = EVERYWHERE
