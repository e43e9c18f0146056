"""What a private RabbitMQ node is made of: installed programs and free ports.

The programs are the system's own, or those of a private root folder (another Debian's, made by
``.ci/setup-rabbitmq-4``), entered by chroot: the second way to have a second version needs root.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Final

import attrs

_INSTALLED: Final = Path("/usr/lib/rabbitmq/bin")
_ERLANG: Final = Path("/usr/lib/erlang/bin")
_SYSTEM: Final = Path("/")
_PORTS: Final = range(20_000, 32_000)  # below Linux's ephemeral range: no outgoing socket can take one
_HOW_TO_INSTALL: Final = "install RabbitMQ first, e.g. `apt-get install rabbitmq-server` on Debian or Ubuntu"
_HOW_TO_MAKE_ROOT: Final = "make that private root folder first: `.ci/setup-rabbitmq-4`, as root"

# The mounts live in a namespace of the broker's own: they go when it goes, however it ends.
_ENTER: Final = 'mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"'


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
    """Where the server, its tools, and the Erlang tools beside it are installed, as seen inside ``root``."""

    server: Path
    ctl: Path
    epmd: Path
    erl_call: Path
    root: Path = _SYSTEM

    @classmethod
    def find(cls) -> Programs:
        """Find the system's own, or raise RabbitNodeError saying what to install."""
        # The server's own script, not the distribution's wrapper on PATH: that one changes user.
        return cls(
            server=_find("rabbitmq-server", _INSTALLED),
            ctl=_find("rabbitmqctl", _INSTALLED),
            epmd=_find("epmd", _ERLANG),
            erl_call=_find("erl_call", _ERLANG),
        )

    @classmethod
    def within(cls, root: Path) -> Programs:
        """Find those of a private root folder, or raise RabbitNodeError saying how to make one."""
        root = root.resolve()
        if root == _SYSTEM:
            return cls.find()
        found = cls(
            _INSTALLED / "rabbitmq-server",
            _INSTALLED / "rabbitmqctl",
            _ERLANG / "epmd",
            _ERLANG / "erl_call",
            root,
        )
        for program in (found.server, found.ctl, found.epmd, found.erl_call):
            if not (root / program.relative_to("/")).exists():
                raise RabbitNodeError(f"{program} not found in {root}: {_HOW_TO_MAKE_ROOT}")
        if os.geteuid() != 0:
            raise RabbitNodeError(f"only root can run RabbitMQ from the private root folder {root}")
        return found

    def command(self, program: Path, *arguments: str) -> list[str]:
        """Return the command line that runs a program where it is installed."""
        entering = [] if self.root == _SYSTEM else ["chroot", str(self.root)]
        return [*entering, str(program), *arguments]

    def server_command(self) -> list[str]:
        """Return the command line that becomes the server: signals to its process reach the broker."""
        if self.root == _SYSTEM:
            return [str(self.server)]
        return ["unshare", "--mount", "sh", "-c", _ENTER, str(self.root), str(self.server)]

    def make_folder(self) -> Path:
        """Make a fresh temporary folder that the programs can reach, and return its path outside."""
        return Path(tempfile.mkdtemp(prefix="craig-mq-rabbit-", dir=self._temporary))

    def inside(self, path: Path) -> str:
        """Return how the programs name a path that lies within their root."""
        return str(_SYSTEM / path.relative_to(self.root))

    @property
    def _temporary(self) -> Path | None:
        return None if self.root == _SYSTEM else self.root / "var" / "tmp"
