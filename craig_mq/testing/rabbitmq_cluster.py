"""Three private RabbitMQ nodes in one cluster, on one machine, for tests of quorum queues.

::

    with RabbitCluster() as cluster:
        cluster.nodes[0].kill()
        cluster.start()         # whatever does not run, all at once
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from craig_mq.testing.private_server import PrivateServer
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.testing.rabbitmq_epmd import Epmd
from craig_mq.testing.rabbitmq_programs import Programs, RabbitNodeError


class RabbitCluster(PrivateServer):
    """``size`` nodes that share a name server; every call blocks, as those of RabbitNode do.

    Entering starts and joins them; leaving stops them and removes everything.
    """

    def __init__(self, size: int = 3, *, programs: Programs | None = None) -> None:
        programs = programs or Programs.find()
        self._epmd = Epmd(programs)
        first = RabbitNode(programs=programs, epmd=self._epmd)
        others = (RabbitNode(programs=programs, epmd=self._epmd, join=first) for _ in range(size - 1))
        self.nodes = (first, *others)

    def _open(self) -> None:
        for node in self.nodes:
            node.start()
        self._check_joined()

    def start(self) -> None:
        """Start every node that does not run, at once: one alone may wait for the other's tables."""
        stopped = [node for node in self.nodes if not node.running]
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            for started in [threads.submit(node.start) for node in stopped]:
                started.result()

    def _check_joined(self) -> None:
        joined = self.nodes[0].eval("length(rabbit_nodes:all_running())")
        if joined != str(len(self.nodes)):
            raise RabbitNodeError(f"{joined} of {len(self.nodes)} nodes joined the cluster")

    def close(self) -> None:
        """Kill what still runs and delete the data."""
        for node in self.nodes:
            node.close()
        self._epmd.close()
