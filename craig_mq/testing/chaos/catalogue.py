"""Every trouble a campaign knows. The table of guarantees has a row for each, and a test compares them."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import Final

from craig_mq.testing.chaos.broker_troubles import BROKER_TROUBLES
from craig_mq.testing.chaos.cluster_troubles import CLUSTER_TROUBLES
from craig_mq.testing.chaos.network_troubles import NETWORK_TROUBLES
from craig_mq.testing.chaos.operator_troubles import OPERATOR_TROUBLES
from craig_mq.testing.chaos.trouble import Place, Trouble

_KINDS: Final = (NETWORK_TROUBLES, BROKER_TROUBLES, OPERATOR_TROUBLES, CLUSTER_TROUBLES)

# One of each kind in turn: what a trouble leaves behind meets a trouble of another kind.
TROUBLES: Final[tuple[Trouble, ...]] = tuple(
    trouble for trouble in chain.from_iterable(zip_longest(*_KINDS)) if trouble is not None
)


def troubles_of(place: Place) -> tuple[Trouble, ...]:
    """Return what can be made on one node, or in a cluster."""
    return tuple(trouble for trouble in TROUBLES if place in trouble.places)
