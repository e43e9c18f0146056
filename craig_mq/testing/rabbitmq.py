"""A private RabbitMQ node for tests: own ports, own epmd, own data, nothing left behind.

::

    with RabbitNode() as node:
        url = node.vhost_url(node.add_vhost())
        ...
        node.kill()        # kill -9
        node.start()       # on the same data

Every call blocks; from Trio use ``trio.to_thread.run_sync``. Only processes that the node itself
started are ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from craig_mq.testing.private_server import PrivateServer
from craig_mq.testing.rabbitmq_epmd import Epmd
from craig_mq.testing.rabbitmq_programs import Programs, RabbitNodeError, free_ports

_POLL_S: Final = 0.05


class RabbitNode(PrivateServer):
    """One broker process and its epmd, on free loopback ports, with its data in a temporary folder.

    ``config`` lines are appended to rabbitmq.conf; ``programs`` choose another version than the
    system's; nodes that share an ``epmd`` can form a cluster: the node started first, and others that
    ``join`` it at their first start. Entering starts the node; leaving stops it and removes everything.
    """

    def __init__(
        self,
        *,
        config: str = "",
        programs: Programs | None = None,
        epmd: Epmd | None = None,
        join: RabbitNode | None = None,
    ) -> None:
        self._programs = programs or Programs.find()
        self._folder = self._programs.make_folder()
        self.port, self._dist_port, self._ctl_port = free_ports(3)
        self._shared_epmd = epmd is not None
        self._epmd = epmd or Epmd(self._programs)
        self.name = f"craig{secrets.token_hex(4)}@localhost"
        self._server: subprocess.Popen[bytes] | None = None
        (self._folder / ".erlang.cookie").write_text(self._epmd.cookie)
        (self._folder / ".erlang.cookie").chmod(0o400)
        (self._folder / "enabled_plugins").write_text("[].\n")
        limits = "disk_free_limit.absolute = 1MB\nvm_memory_high_watermark.relative = 0.8\n"
        (self._folder / "rabbitmq.conf").write_text(limits + self._joining(join) + config)

    def _open(self) -> None:
        self.start()

    # -- life -----------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the broker process exists (also while paused)."""
        return self._server is not None and self._server.poll() is None

    def start(self, *, timeout_s: float = 120.0) -> None:
        """Start the broker on its data and return once it speaks AMQP on every listener.

        Raises RabbitNodeError, with the end of the log, if it exits or stays silent.
        """
        if self.running:
            return
        self._epmd.start()
        with (self._folder / "console.log").open("ab") as console:
            self._server = subprocess.Popen(  # noqa: S603 - our own fixed arguments
                self._programs.server_command(),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,  # a Ctrl-C at the terminal is for the tests, not for the broker
            )
        deadline = time.monotonic() + timeout_s
        while not self._speaks_amqp():
            if not self.running or time.monotonic() > deadline:
                tail = "\n".join(self.log_text().splitlines()[-30:])
                raise RabbitNodeError(f"RabbitMQ did not start within {timeout_s:g} s:\n{tail}")
            time.sleep(_POLL_S)
        self.eval("rabbit:await_startup()")  # its other listeners come after the first

    def stop(self, *, timeout_s: float = 60.0) -> None:
        """Stop the broker gracefully (SIGTERM); its data stays."""
        if self._server is None or not self.running:
            return
        self._signal(signal.SIGCONT)
        self._server.terminate()
        try:
            self._server.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the broker (SIGKILL), as a power failure would; what it had written stays."""
        if self._server is not None and self.running:
            self._signal(signal.SIGKILL)
            self._server.wait()

    def restart(self) -> None:
        """Stop gracefully and start again on the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker run again (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill what still runs, epmd included, and delete the data."""
        self.kill()
        if not self._shared_epmd:
            self._epmd.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- asking it ------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The AMQP URL of the default vhost as the default user."""
        return self.vhost_url("/")

    def vhost_url(self, vhost: str, *, user: str = "guest", password: str = "guest") -> str:  # noqa: S107
        """Return the AMQP URL of ``vhost`` for ``user``."""
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"amqp://{login}@127.0.0.1:{self.port}/{quote(vhost, safe='')}"

    def log_text(self) -> str:
        """Return everything the broker has logged and printed so far."""
        logs = (self._folder / name for name in ("console.log", "node.log"))
        return "".join(log.read_text(errors="replace") for log in logs if log.exists())

    def ctl(self, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run ``rabbitmqctl`` (one to two seconds of CPU; prefer ``eval``) and return what it printed.

        Raises RuntimeError, with its output, if it fails.
        """
        command = self._programs.command(self._programs.ctl, "-q", "-n", self.name, *arguments)
        return self._run(command, "", timeout_s)

    def eval(self, expression: str, *, timeout_s: float = 60.0) -> str:
        """Evaluate Erlang inside the broker (some 10 ms) and return the printed term.

        Raises RuntimeError with Erlang's reason if it fails.
        """
        programs = self._programs
        command = programs.command(programs.erl_call, "-sname", self.name, "-c", self._epmd.cookie, "-e")
        printed = self._run(command, f"{expression.strip().rstrip('.')}.\n", timeout_s).strip()
        if not (printed.startswith("{ok, ") and printed.endswith("}")):
            raise RuntimeError(f"Erlang answered {printed}")
        return printed[len("{ok, ") : -1].strip()

    @contextlib.contextmanager
    def memory_alarm(self) -> Generator[None, None, None]:
        """Raise the broker's memory alarm for the block: publishing connections get blocked."""
        alarm = "{resource_limit, memory, node()}"
        self.eval(f"rabbit_alarm:set_alarm({{{alarm}, []}})")
        try:
            yield
        finally:
            self.eval(f"rabbit_alarm:clear_alarm({alarm})")

    def add_vhost(self, name: str | None = None) -> str:
        """Create a vhost (a fresh name by default) that ``guest`` may use, and return its name."""
        name = name or f"t{secrets.token_hex(6)}"
        self.eval(f'rabbit_vhost:add(<<"{name}">>, <<"test">>)')
        self.set_permissions(name)
        return name

    def delete_vhost(self, name: str) -> None:
        """Delete a vhost with everything in it; its connections are closed by the broker."""
        self.eval(f'rabbit_vhost:delete(<<"{name}">>, <<"test">>)')

    def add_user(self, user: str, password: str) -> None:
        """Create a user without any permission."""
        self.eval(f'rabbit_auth_backend_internal:add_user(<<"{user}">>, <<"{password}">>, <<"test">>)')

    def set_permissions(
        self, vhost: str, *, user: str = "guest", configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Set what ``user`` may configure, write and read in ``vhost`` (regular expressions)."""
        terms = ", ".join(f'<<"{text}">>' for text in (user, vhost, configure, write, read, "test"))
        self.eval(f"rabbit_auth_backend_internal:set_permissions({terms})")

    # -- inside ---------------------------------------------------------------------------------

    def _joining(self, first: RabbitNode | None) -> str:
        if first is None:
            return ""
        names = (
            f"cluster_formation.classic_config.nodes.{n} = {name}\n"
            for n, name in enumerate((first.name, self.name), 1)
        )
        return "cluster_formation.peer_discovery_backend = classic_config\n" + "".join(names)

    def _environment(self) -> Mapping[str, str]:
        folder = PurePosixPath(self._programs.inside(self._folder))
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        return inherited | {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._epmd.port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CTL_DIST_PORT_MIN": str(self._ctl_port),
            "RABBITMQ_CTL_DIST_PORT_MAX": str(self._ctl_port + 100),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": str(folder / "node.log"),
            "RABBITMQ_PID_FILE": str(folder / "node.pid"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the VM instead of watching over it
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+S 1:1 -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }

    def _run(self, command: list[str], text: str, timeout_s: float) -> str:
        done = subprocess.run(  # noqa: S603 - the test author's own arguments
            command,
            env=self._environment(),
            input=text,
            text=True,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{Path(command[0]).name} failed: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout

    def _signal(self, number: signal.Signals) -> None:
        if self._server is not None and self.running:
            os.killpg(self._server.pid, number)

    def _speaks_amqp(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                return probe.recv(1) == b"\x01"  # a method frame: connection.start
        except OSError:
            return False
