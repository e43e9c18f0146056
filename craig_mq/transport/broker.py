"""The seam: everything the runtime may ask of a broker.

Three implementations (memory, native, aio-pika) satisfy these protocols and pass one conformance
suite. Connections here never reconnect: the supervisor is the only reconnector (S7).

Cancellation, for every ``async`` method: a cancelled call raises ``trio.Cancelled`` promptly; what
it leaves behind is stated per method. Errors: ``TransportError`` only; anything else is a bug.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

from craig_mq.core.close import CloseReason
from craig_mq.core.delivery import Delivery, Publication
from craig_mq.core.outcome import Confirmation
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState


@attrs.define(frozen=True, slots=True)
class ConnectionOptions:
    """How to connect. All times in seconds.

    ``name`` is shown by the broker's own tools. ``connect_timeout`` bounds every step from DNS to
    connection.open-ok together; ``rpc_timeout`` bounds each later request and the graceful close.
    """

    name: str
    connect_timeout: float = 10.0
    rpc_timeout: float = 10.0
    heartbeat: int = 15


class Broker(Protocol):
    """Where to connect. Opening one dials nothing; it may be shared by any number of tasks."""

    @property
    def display_url(self) -> str:
        """The URL without its password."""
        ...

    def connect(self, options: ConnectionOptions) -> AbstractAsyncContextManager[Connection]:
        """One plain connection for the length of the block.

        Entering raises ConnectError, within ``connect_timeout``; cancelled while entering, nothing
        is left open. Leaving the block aborts (RST) whatever was not closed by ``aclose``, and
        returns only when every task of the connection has ended. Losing the connection never
        cancels the block: it shows in ``closed``, ``wait_closed`` and in failing calls.
        """
        ...


class Connection(Protocol):
    """A live connection, owned by the block that opened it."""

    @property
    def closed(self) -> CloseReason | None:
        """Why the connection ended, or None while it lives."""
        ...

    @property
    def blocked(self) -> str | None:
        """The broker's reason while ``connection.blocked`` is in force, else None."""
        ...

    async def wait_blocked(self) -> None:
        """Return once the connection is blocked or closed. Cancelled: nothing changes."""
        ...

    async def wait_unblocked(self) -> None:
        """Return once the connection is not blocked, or closed. Cancelled: nothing changes."""
        ...

    async def wait_closed(self) -> CloseReason:
        """Return why the connection ended, once it has. Cancelled: nothing changes."""
        ...

    async def open_channel(self, *, confirms: bool = False) -> Channel:
        """Open a channel, in confirm mode if asked.

        Raises ClosedError or OperationTimedOut. Cancelled: the channel is closed when its open-ok
        arrives, and its number is not reused before.
        """
        ...

    async def aclose(self) -> None:
        """Close gracefully, bounded by ``rpc_timeout``, then abort. Never raises TransportError.

        Cancelled: the connection is aborted. On a closed connection it returns at once.
        """
        ...

    def abort(self) -> None:
        """Reset the transport now (SO_LINGER 0), from any task; idempotent.

        Every pending publish of the connection resolves to ``Unconfirmed``; every other pending
        call raises ClosedError.
        """
        ...


class Channel(Protocol):
    """A channel. When it ends, every pending call on it fails at once with the broker's text."""

    @property
    def closed(self) -> CloseReason | None:
        """Why the channel ended (its own close, or its connection's), or None while it lives."""
        ...

    async def wait_closed(self) -> CloseReason:
        """Return why the channel ended, once it has."""
        ...

    async def declare_exchange(self, exchange: ExchangeSpec, *, passive: bool = False) -> None:
        """Declare. A refusal closes the channel and raises ClosedError(ChannelClose)."""
        ...

    async def declare_queue(self, queue: QueueSpec, *, passive: bool = False) -> QueueState:
        """Declare, or look (``passive``). A refusal closes the channel and raises ClosedError.

        Cancelled: the answer is discarded when it comes; the channel stays usable or is closed,
        but is never left answering another call.
        """
        ...

    async def delete_queue(self, queue: str) -> int:
        """Delete, returning how many ready messages died with it."""
        ...

    async def purge_queue(self, queue: str) -> int:
        """Remove all ready messages, returning how many."""
        ...

    async def bind_queue(self, binding: BindingSpec) -> None:
        """Bind a queue to an exchange."""
        ...

    async def unbind_queue(self, binding: BindingSpec) -> None:
        """Remove a binding; an absent one is no error."""
        ...

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool = False) -> Consumer:
        """Start a consumer with manual acks and its own prefetch (1 .. 65535).

        Cancelled: a consumer that the broker nevertheless started is cancelled and what it was
        given is requeued; none is left behind (field failure CCAN-03).
        """
        ...

    async def get(self, queue: str) -> Delivery | None:
        """Take one message (basic.get, manual ack), or None if none is ready."""
        ...

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish mandatory and wait for the confirm, without a bound: the caller sets it.

        Only on a channel opened with ``confirms=True``. Never raises TransportError: a channel or
        connection that ends resolves it to ``Unconfirmed``. Waits first while the socket is full
        (back-pressure). Cancelled: the message may already be stored; the late confirm is dropped.
        """
        ...

    def publish_nowait(self, publication: Publication, told: Callable[[Confirmation], None]) -> bool:
        """Accept a publish for writing, synchronously; False where it cannot, and then nothing happened.

        Once accepted, ``told`` hears exactly once what ``publish`` would have returned, from whichever
        task learns of it and possibly before this returns; it must neither wait nor raise. False means
        "use ``publish``": the socket is full, the channel has ended, or the transport has no such way.
        """
        ...

    def ack_nowait(self, delivery_tag: int, *, multiple: bool = False) -> bool:
        """Accept an ack for writing, synchronously. Raises ClosedError if the channel has ended.

        True: it was handed to the operating system within this call, and everything accepted before it,
        too. False says nothing: ``flush`` tells.
        """
        ...

    def nack_nowait(self, delivery_tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """Accept a nack for writing, synchronously. Raises ClosedError if the channel has ended."""
        ...

    async def flush(self) -> None:
        """Return once everything accepted so far was handed to the operating system.

        Raises ClosedError if the channel ended before that. Cancelled: what was accepted may or
        may not have been written.
        """
        ...

    async def aclose(self) -> None:
        """Close the channel gracefully; its unacked deliveries are requeued. Bounded, then abort."""
        ...


class Consumer(Protocol):
    """A consumer; several tasks may receive from it, each delivery goes to exactly one."""

    @property
    def tag(self) -> str:
        """The consumer tag, fresh per consume."""
        ...

    async def receive(self) -> Delivery:
        """Take the next delivery in order. Cancelled: no delivery is lost, it stays buffered.

        Raises ClosedError with ConsumerCancel, or with the channel's or connection's reason, as
        soon as one is known (deliveries still buffered then can no longer be settled).
        """
        ...

    def receive_nowait(self) -> Delivery | None:
        """Take the next buffered delivery, or None. Raises ClosedError like ``receive``."""
        ...

    async def cancel(self) -> list[Delivery]:
        """Stop consuming: basic.cancel, await cancel-ok; return what was buffered but not taken.

        The returned deliveries are unacked: the caller nacks them (after the cancel: the order
        matters, rabbitmq-facts) or handles them.
        """
        ...
