"""Errors of the core.

::

    MalformedBody        a body that is not an envelope by the body rules; becomes a quarantine
    DlqConfigError       a configuration value out of range; names field, value and range
    IllegalTransition    an event the settlement machine does not accept in its state
    EnvelopeNotSerializable  a message's own envelope cannot be written: classified PERMANENT
"""

from __future__ import annotations


class MalformedBody(ValueError):
    """The body cannot be read as an envelope; the text says why and never quotes the body."""


class DlqConfigError(ValueError):
    """A configuration value is refused before any connection is opened (ADR-059 §config)."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        """Name the field, the value and what would have been allowed."""
        super().__init__(f"{field} = {value!r}: allowed is {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class IllegalTransition(Exception):
    """An event that the state does not accept: a bug of the caller. The machine is unchanged."""


class EnvelopeNotSerializable(ValueError):
    """The message's own envelope cannot be serialised: provably message-specific (ADR-059 §taxonomy)."""
