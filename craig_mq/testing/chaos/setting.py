"""Where a campaign takes place: which RabbitMQ, which type of queue, one node or three."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs

from craig_mq.core.config import QueueType
from craig_mq.testing.chaos.trouble import Place
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.testing.rabbitmq_cluster import RabbitCluster
from craig_mq.testing.rabbitmq_programs import Programs


@attrs.define(frozen=True, slots=True)
class Setting:
    """``root`` holds the RabbitMQ to run: ``/`` for the system's own."""

    root: Path
    queue_type: QueueType
    place: Place = "node"

    @contextmanager
    def nodes(self) -> Generator[tuple[RabbitNode, ...], None, None]:
        """Run the nodes for the length of the block. Raises RabbitNodeError where none can be run."""
        programs = Programs.within(self.root)
        if self.place == "cluster":
            with RabbitCluster(programs=programs) as cluster:
                yield cluster.nodes
        else:
            with RabbitNode(programs=programs) as node:
                yield (node,)
