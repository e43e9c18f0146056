"""A private PostgreSQL server for tests: free port, temporary data, nothing left behind.

::

    with PostgresServer() as server:
        url = server.url(database=server.add_database())
        ...
        server.kill()      # kill -9
        server.start()     # on the same data, after crash recovery

Every call blocks; from Trio use ``trio.to_thread.run_sync``. PostgreSQL refuses to run as root, so
under root it runs as ``postgres`` (or ``nobody``). Only processes it started are ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from craig_mq.testing.private_server import PrivateServer

_INSTALLED: Final = Path("/usr/lib/postgresql")
_POLL_S: Final = 0.05
_HOW_TO_INSTALL: Final = "install PostgreSQL first, e.g. `apt-get install postgresql` on Debian or Ubuntu"
_NO_SETTINGS: Final[Mapping[str, str]] = {}


class PostgresServerError(RuntimeError):
    """No PostgreSQL server is installed, or it did not come up; the text says what to do."""


def _programs() -> Path:
    """The folder that holds initdb and postgres: the newest installed one, or the one on PATH."""
    versions = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if versions:
        return versions[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise PostgresServerError(f"initdb not found: {_HOW_TO_INSTALL}")
    return Path(on_path).resolve().parent


@attrs.define(frozen=True)
class _Identity:
    """Whom a subprocess runs as; None means as we do."""

    user: int | None = None
    group: int | None = None
    extra_groups: list[int] | None = None


def _unprivileged() -> _Identity:
    if os.geteuid() != 0:
        return _Identity()
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            account = pwd.getpwnam(name)
            return _Identity(account.pw_uid, account.pw_gid, [])
    raise PostgresServerError("running as root, and there is no user `postgres` or `nobody` to become")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class PostgresServer(PrivateServer):
    """One server on a free loopback port; every commit is fsynced, logins are trusted.

    ``settings`` are server parameters. Entering starts the server, leaving stops it and removes its data.
    """

    def __init__(self, settings: Mapping[str, str] = _NO_SETTINGS) -> None:
        self._programs = _programs()
        self._identity = _unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="craig-mq-postgres-"))
        self._data = self._folder / "data"
        self._log = self._folder / "server.log"
        self._settings = settings
        self._server: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        os.chown(self._folder, *self.owner)
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "-D", str(self._data))

    def _open(self) -> None:
        self.start()

    @property
    def data(self) -> Path:
        """The data folder: configuration files such as a TLS key go there before ``start``."""
        return self._data

    @property
    def owner(self) -> tuple[int, int]:
        """The (uid, gid) the server runs as: the owner its configuration files need."""
        identity = self._identity
        return (
            os.getuid() if identity.user is None else identity.user,
            os.getgid() if identity.group is None else identity.group,
        )

    @property
    def running(self) -> bool:
        """Whether the server process exists (also while paused)."""
        return self._server is not None and self._server.poll() is None

    def url(self, *, user: str = "postgres", database: str = "postgres", host: str = "127.0.0.1") -> str:
        """A ``postgresql://`` URL of this server."""
        return f"postgresql://{user}@{host}:{self.port}/{database}"

    def add_database(self) -> str:
        """Create a fresh database and return its name."""
        name = f"audit_{secrets.token_hex(6)}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def sql(self, statement: str, *, database: str = "postgres") -> str:
        """Run ``statement`` as the superuser and return psql's unaligned output."""
        host, port = "127.0.0.1", str(self.port)
        return self._run(
            "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", "postgres", database,
            "-c", statement,
        )  # fmt: skip

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start on the same data and return once it takes connections.

        Raises PostgresServerError, with the end of the log, if it exits or stays silent.
        """
        if self.running:
            return
        sockets = f"unix_socket_directories={self._folder}"
        settings = [f"{name}={value}" for name, value in self._settings.items()]
        options = [part for setting in (sockets, *settings) for part in ("-c", setting)]
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(  # noqa: S603 - our own fixed arguments
                [self._programs / "postgres", "-D", self._data, "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,  # a Ctrl-C at the terminal is for the tests, not for the server
                user=self._identity.user,
                group=self._identity.group,
                extra_groups=self._identity.extra_groups,
            )
        self._await_ready(time.monotonic() + timeout_s)

    def stop(self) -> None:
        """Fast shutdown: sessions are cut (57P01), data is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill -9 the postmaster and every backend at once."""
        if self._server is None:
            return
        backends = _children(self._server.pid)
        self._server.send_signal(signal.SIGKILL)
        self._server.wait()
        for backend in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(backend, signal.SIGKILL)
        self._server = None

    def pause(self) -> None:
        """Freeze every process of the server (SIGSTOP): connections stay open and silent."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo ``pause``."""
        self._signal_all(signal.SIGCONT)

    def close(self) -> None:
        """Stop at once and remove the data."""
        if self.running:
            self.resume()
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal_all(self, number: signal.Signals) -> None:
        if self._server is not None:
            for pid in (self._server.pid, *_children(self._server.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _end(self, number: signal.Signals) -> None:
        if self._server is None:
            return
        self._server.send_signal(number)
        try:
            self._server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._server = None

    def _await_ready(self, deadline: float) -> None:
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:  # noqa: S603 - our own fixed arguments
            if not self.running or time.monotonic() > deadline:
                tail = self._log.read_text(errors="replace")[-2000:]
                raise PostgresServerError(f"PostgreSQL did not come up; its log ends:\n{tail}")
            time.sleep(_POLL_S)

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own fixed arguments
            [self._programs / program, *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=self._folder,
            user=self._identity.user,
            group=self._identity.group,
            extra_groups=self._identity.extra_groups,
        )
        if done.returncode != 0:
            raise PostgresServerError(f"{program} failed: {done.stderr.strip()}")
        return done.stdout.strip()
