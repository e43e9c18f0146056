"""Erlang's name server, one of our own: what nodes find each other by, and what they trust."""

from __future__ import annotations

import secrets
import subprocess

from craig_mq.testing.rabbitmq_programs import Programs, free_ports


class Epmd:
    """One epmd in the foreground on a free loopback port: the daemon Erlang would start outlives its nodes.

    Nodes that share one, and its ``cookie``, can form a cluster.
    """

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        (self.port,) = free_ports(1)
        self.cookie = secrets.token_hex(12)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None:
            return
        arguments = ("-port", str(self.port), "-address", "127.0.0.1")
        self._process = subprocess.Popen(  # noqa: S603 - our own fixed arguments
            self._programs.command(self._programs.epmd, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
