"""Errors at the seam to a broker.

::

    TransportError
    ├── ConnectError            no connection came to be; .kind says whose fault it is
    ├── ClosedError             the thing used has ended; .reason is a core.close.CloseReason
    └── OperationTimedOut       an RPC passed its deadline; the connection must be aborted

No message ever holds a credential (field failure PERM-05).
"""

from __future__ import annotations

import enum

from craig_mq.core.close import CloseReason


class ConnectErrorKind(enum.Enum):
    """Whether trying again can help without anybody changing anything."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"


class TransportError(Exception):
    """Anything that went wrong between this process and the broker."""


class ConnectError(TransportError):
    """No connection: ``UNREACHABLE`` (DNS, TCP, TLS, silence) or ``REFUSED`` (login, vhost, limits)."""

    def __init__(self, kind: ConnectErrorKind, text: str) -> None:
        """Keep the kind beside the text, which must hold no credential."""
        super().__init__(text)
        self.kind = kind


class ClosedError(TransportError):
    """The consumer, channel or connection used has ended; ``reason`` says why."""

    def __init__(self, reason: CloseReason) -> None:
        """Name the reason in the text, so that no log line is ever empty (field failure ACK-01)."""
        super().__init__(str(reason))
        self.reason = reason


class OperationTimedOut(TransportError):
    """A broker call got no answer within its bound. The caller aborts the connection."""
