"""Looking at a running service, and at its queues without one."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

import attrs
import trio

from craig_mq.operator.connecting import connected
from craig_mq.operator.doctor.management import ManagementApi
from craig_mq.operator.errors import OperatorError, QueueMissing
from craig_mq.operator.lease import lease_queue, ready_count
from craig_mq.operator.row import read_row
from craig_mq.transport.broker import Broker

TIMEOUT_S: Final = 5.0
MAX_STATUS_BYTES: Final = 1024 * 1024
_NEXT_STEP: Final = "check that the service runs, and that this is its --metrics address"


class ServiceUnreachable(OperatorError):
    """No status came from the address; the text says what did."""


class BadAddress(ServiceUnreachable):
    """The address can't be one."""


@attrs.define(frozen=True, slots=True)
class QueueDepth:
    """A queue from outside. ``ready`` None: there is no such queue.

    ``held`` counts what consumers hold unacked; None where only AMQP was asked, which does not tell.
    ``oldest_s`` is the age of the head, None where it was not asked for, is unknown, or is held elsewhere.
    """

    queue: str
    ready: int | None
    held: int | None = None
    oldest_s: float | None = None


def fetch_status(url: str) -> dict[str, Any]:
    """The document a service serves at ``/status``. Raises ServiceUnreachable. Blocks up to 5 seconds.

    No error quotes more of ``url`` than host and port: a login may stand before them.
    """
    parts, host, port = check_address(url)
    shown = shown_address(host, port)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(shown, timeout=TIMEOUT_S)  # bare, the end of an IPv6 address is read as a port
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/status")
        with connection.getresponse() as response:
            text = response.read(MAX_STATUS_BYTES)
        if response.status != http.client.OK:
            raise ServiceUnreachable(
                f"{shown} answers {response.status}: {text[:200].decode('utf-8', 'replace')}"
            )
        document: object = json.loads(text)
    except http.client.InvalidURL as error:  # its text quotes the path
        raise ServiceUnreachable(f"no status from {shown}: {type(error).__name__}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ServiceUnreachable(f"no status from {shown}: {_plainly(error)}; {_NEXT_STEP}") from error
    finally:
        connection.close()
    if not isinstance(document, dict):
        raise ServiceUnreachable(
            f"no status from {shown}: what answers there is no craig-mq service; {_NEXT_STEP}"
        )
    return cast("dict[str, Any]", document)


def _plainly(error: Exception) -> str:
    match error:
        case socket.gaierror():
            return "no host of that name is known"
        case ConnectionRefusedError():
            return "nothing listens there"
        case TimeoutError():
            return f"no answer within {TIMEOUT_S:g} s"
        case json.JSONDecodeError():
            return "what answers there is no craig-mq service"
        case _:
            return f"{type(error).__name__} {error}"


def check_address(url: str) -> tuple[SplitResult, str, int | None]:
    """The parts of a service's address, its host and its port. Raises BadAddress, which quotes none of it.

    A port must be said unless a scheme is. An ``@`` behind the host is refused: a bare ``/`` in a password
    makes a path of the rest of it.
    """
    try:
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is none, or half an IPv6 address
        parts, host, port = SplitResult("", "", "", "", ""), None, None
    behind = f"{parts.path}{parts.query}{parts.fragment}"
    unfit = "@" in behind or any(sign <= " " or sign == "\x7f" for sign in url)
    portless = port is None and "//" not in url
    if parts.scheme not in {"http", "https"} or not host or portless or unfit:
        raise BadAddress("--service's value is no address: say HOST:PORT, as the service's --metrics has it")
    return parts, host, port


def shown_address(host: str, port: int | None) -> str:
    """Host and port as an output may show them."""
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if port is None else f"{bracketed}:{port}"


async def queue_depths(broker: Broker, queues: Sequence[str], *, oldest: bool) -> list[QueueDepth]:
    """Count ready messages; with ``oldest``, lease each queue's head for a moment to learn its age.

    A look at the head sets its ``redelivered`` flag, and counts on a quorum queue, where it is left out.
    """
    depths: list[QueueDepth] = []
    async with connected(broker, "status") as connection:
        for queue in queues:
            try:
                depths.append(QueueDepth(queue, await ready_count(connection, queue)))
            except QueueMissing:
                depths.append(QueueDepth(queue, None))
        await connection.aclose()
    if not oldest:
        await trio.lowlevel.checkpoint()
        return depths
    return [
        attrs.evolve(one, oldest_s=await _oldest_s(broker, one.queue)) if one.ready else one for one in depths
    ]


def with_held(api: ManagementApi, depths: Sequence[QueueDepth]) -> list[QueueDepth]:
    """Add what the management API says is held, some seconds old. Blocks. Raises OperatorError."""
    return [
        one
        if one.ready is None
        else attrs.evolve(one, held=api.get("queues", api.vhost, one.queue).get("messages_unacknowledged"))
        for one in depths
    ]


async def _oldest_s(broker: Broker, queue: str) -> float | None:
    try:
        async with lease_queue(broker, queue, limit=1) as lease:
            delivery = await lease.receive()
    except OperatorError:
        await trio.lowlevel.checkpoint()
        return None
    at_s = None if delivery is None else read_row(delivery, 0).at_s
    return None if at_s is None else time.time() - at_s
