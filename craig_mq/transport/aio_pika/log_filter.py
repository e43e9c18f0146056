"""What aiormq and aio-pika may say in the log: never a message body, never a credential.

Both format whole messages, frames and connections with ``%r`` (a return that matches no publish logs
the body; ``connection.start-ok`` holds the password), and attach exceptions whose texts do the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

_LIBRARIES = ("aiormq", "aio_pika")
_MADE_LATER = ("aiormq.connection.marshall",)  # fetched by name at its first record
_PLAIN = (str, int, float, bool, type(None))

# Answers to a call nobody waits for any more, which the transport has judged already: a return or a
# confirm after a publish was cancelled (field failure CLI-02), a request cancelled before its reply.
_OF_ABANDONED_CALLS = (
    "Unhandled message %r returning",
    "message_id if None on returned message %r",
    "Delivery tag %r confirmed %r was ignored",
    "Unexpected confirmation frame %r from broker",
    "Closing channel %r locally because RPC call %s cancelled before Channel.Open was sent",
    "Closing channel %r because RPC call %s cancelled",
)


class _TypesOnly(logging.Filter):
    """Leaves text and numbers of a record as they are; of everything else only the type's name."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg in _OF_ABANDONED_CALLS:
            record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
            if not logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
                return False
        record.msg = str(_harmless(record.msg))
        record.args = tuple(_harmless(value) for value in _values(record.args))
        if record.exc_info is not None and record.exc_info[0] is not None:
            record.msg = f"{record.msg} ({record.exc_info[0].__name__})"
            record.exc_info = record.exc_text = None
        return True


class _TypeName:
    """Stands for a value in a record; ``%r`` and ``%s`` both give its type's name."""

    def __init__(self, value: object) -> None:
        self._text = f"<{type(value).__name__}>"

    def __repr__(self) -> str:
        return self._text


def _values(args: tuple[object, ...] | Mapping[str, object] | None) -> tuple[object, ...]:
    """Return a record's arguments; a lone mapping, which logging unpacks by name, as one value."""
    if args is None:
        return ()
    return args if isinstance(args, tuple) else (args,)


def _harmless(value: object) -> object:
    return value if isinstance(value, _PLAIN) else _TypeName(value)


_TYPES_ONLY = _TypesOnly()


def keep_messages_out_of_the_log() -> None:
    """Filter every logger of the two libraries, for the rest of the process; again is harmless.

    A logger's filter sees no record of its children, so each one that exists gets it.
    """
    known = tuple(logging.root.manager.loggerDict)
    for name in (*known, *_MADE_LATER):
        if name.split(".", 1)[0] in _LIBRARIES:
            logging.getLogger(name).addFilter(_TYPES_ONLY)
