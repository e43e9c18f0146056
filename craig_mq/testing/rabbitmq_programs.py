"""What a private RabbitMQ node is made of: installed programs and free ports."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
from pathlib import Path
from typing import Final

import attrs

_INSTALLED: Final = Path("/usr/lib/rabbitmq/bin")
_PORTS: Final = range(20_000, 32_000)  # below Linux's ephemeral range: no outgoing socket can take one
_HOW_TO_INSTALL: Final = "install RabbitMQ first, e.g. `apt-get install rabbitmq-server` on Debian or Ubuntu"


class RabbitNodeError(RuntimeError):
    """No RabbitMQ server is installed, or the node did not come up; the text says what to do."""


def free_ports(count: int) -> list[int]:
    """Return ``count`` distinct ports that nothing listens on now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, k=1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RabbitNodeError("no free TCP port between 20000 and 32000")


def _find(program: str, *folders: Path) -> Path:
    for folder in folders:
        if (folder / program).exists():
            return folder / program
    on_path = shutil.which(program)
    if on_path is None:
        raise RabbitNodeError(f"{program} not found: {_HOW_TO_INSTALL}")
    return Path(on_path)


@attrs.define(frozen=True)
class Programs:
    """Where the server, its tools, and the Erlang tools beside it are installed."""

    server: Path
    ctl: Path
    epmd: Path
    erl_call: Path

    @classmethod
    def find(cls) -> Programs:
        """Find them all, or raise RabbitNodeError saying what to install."""
        erlang = Path("/usr/lib/erlang/bin")
        # The server's own script, not the distribution's wrapper on PATH: that one changes user.
        return cls(
            server=_find("rabbitmq-server", _INSTALLED),
            ctl=_find("rabbitmqctl", _INSTALLED),
            epmd=_find("epmd", erlang),
            erl_call=_find("erl_call", erlang),
        )
