"""The private RabbitMQ node that broker tests run against."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from craig_mq.testing import rabbitmq_programs
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.testing.rabbitmq_programs import RabbitNodeError

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitNode]:
    """A node of this file's own: it gets killed."""
    with RabbitNode(config="heartbeat = 33\n") as started:
        yield started


def _answer(url: str) -> bytes:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10.0) as client:
        client.sendall(b"AMQP\x00\x00\x09\x01")
        return client.recv(1)


def test_a_started_node_speaks_amqp_at_its_url(node: RabbitNode) -> None:
    """A started node answers an AMQP header with a method frame on the port of its URL."""
    assert _answer(node.url) == b"\x01"


def test_a_killed_node_keeps_what_was_written(node: RabbitNode) -> None:
    """A node killed with SIGKILL refuses connections, and has its vhosts again once restarted."""
    vhost = node.add_vhost()
    node.kill()
    assert not node.running
    with pytest.raises(ConnectionRefusedError):
        _answer(node.url)
    node.start()
    assert vhost in node.ctl("list_vhosts").splitlines()


def test_a_paused_node_is_silent_until_resumed(node: RabbitNode) -> None:
    """A paused node accepts nothing above TCP; resumed, it answers what was sent meanwhile."""
    parts = urlsplit(node.url)
    node.pause()
    with socket.create_connection((parts.hostname, parts.port), timeout=0.3) as client:
        client.sendall(b"AMQP\x00\x00\x09\x01")
        with pytest.raises(TimeoutError):
            client.recv(1)
        node.resume()
        client.settimeout(10.0)
        assert client.recv(1) == b"\x01"


def test_erlang_is_evaluated_inside_the_node(node: RabbitNode) -> None:
    """``eval`` returns the term from inside the broker, and raises with Erlang's reason."""
    assert node.eval("application:get_env(rabbit, heartbeat)") == "{ok, 33}"
    with pytest.raises(RuntimeError, match="badarith"):
        node.eval("1/0")


def test_users_have_the_permissions_given(node: RabbitNode) -> None:
    """A user made by the rig may do exactly what was set for it in that vhost."""
    vhost = node.add_vhost()
    node.add_user("reader", "secret")
    node.set_permissions(vhost, user="reader", configure="^$", write="^$", read="^q$")
    assert "reader\t^$\t^$\t^q$" in node.ctl("list_permissions", "-p", vhost).splitlines()


def test_nothing_is_left_behind() -> None:
    """A node that never started, closed, leaves no folder."""
    unstarted = RabbitNode()
    folder = unstarted._folder
    assert folder.exists()
    unstarted.close()
    assert not folder.exists()


def test_a_missing_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a RabbitMQ server the error says which package to install."""
    monkeypatch.setattr(rabbitmq_programs, "_INSTALLED", Path("/nonexistent"))
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    with pytest.raises(RabbitNodeError, match="apt-get install rabbitmq-server"):
        RabbitNode()
