"""How the ledger connects to PostgreSQL: every wait has a limit."""

from __future__ import annotations

import re
from typing import Final

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from craig_mq.audit.errors import StoreUrlError

SCHEMA: Final = "craig_audit"
_PORTS: Final = re.compile(r"[0-9,]*")


@attrs.define(frozen=True, slots=True)
class PostgresSettings:
    """Limits of one connection, in seconds.

    ``statement_timeout_s`` and ``lock_timeout_s`` are kept by the server. ``commit_timeout_s`` is kept
    on this side, for a server that no longer answers: the connection is then cut and the outcome of
    the commit looked up.
    """

    connect_timeout_s: int = attrs.field(default=3, validator=attrs.validators.ge(1))
    statement_timeout_s: float = attrs.field(default=15.0, validator=attrs.validators.gt(0))
    lock_timeout_s: float = attrs.field(default=2.0, validator=attrs.validators.gt(0))
    commit_timeout_s: float = attrs.field(default=10.0, validator=attrs.validators.gt(0))

    def conninfo(self, url: str) -> str:
        """``url`` with these limits; what the URL sets itself (TLS parameters, for one) stays as it is."""
        given = conninfo_to_dict(url)
        options = (
            f"-c search_path={SCHEMA} -c timezone=UTC"
            f" -c statement_timeout={_milliseconds(self.statement_timeout_s)}"
            f" -c lock_timeout={_milliseconds(self.lock_timeout_s)}"
            f" -c idle_in_transaction_session_timeout={_milliseconds(self.statement_timeout_s)}"
            f" {given.get('options') or ''}"
        )
        limits: dict[str, object] = {
            "connect_timeout": self.connect_timeout_s,
            "application_name": "craig_mq audit",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": _milliseconds(self.commit_timeout_s),
        }
        # Rows are packed in UTF-8, whatever the database's own encoding is.
        merged = {**limits, **given, "options": options.strip(), "client_encoding": "utf8"}
        return make_conninfo(**merged)  # type: ignore[arg-type]  # every value is a str, an int or None


def checked_url(url: str) -> str:
    """``url`` if libpq can read it. Raises StoreUrlError, which quotes none of it (libpq's errors do)."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        given = None
    # What stands bare in a password ends up in the host or the port.
    if given is None or "@" in str(given.get("host", "")) or not _PORTS.fullmatch(str(given.get("port", ""))):
        del url
        raise StoreUrlError(
            "the PostgreSQL URL can't be read: what a URL reserves (% @ : / ? #) must be percent-encoded in"
            " user and password"
        )
    return url


def shown_address(url: str) -> str:
    """Host, port and database of ``url``, and nothing else of it."""
    given = conninfo_to_dict(url)
    host, port, name = (str(given.get(part) or "") for part in ("host", "port", "dbname"))
    return f"postgresql://{host}{':' if port else ''}{port}/{name}"


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
