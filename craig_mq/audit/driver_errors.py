"""What a database's driver raises, in words that say what to do next; no credentials."""

from __future__ import annotations

import sqlite3
from typing import Final

_SQLITE: Final = "; check that the file's folder exists and may be written"
_POSTGRES: Final = "; check that the database runs, and the URL's host, port, user and database"
_UNOPENED: Final = "unable to open"
_UNCONNECTED: Final = frozenset(
    {"OperationalError", "ConnectionTimeout"}
)  # what a server says has a class of its own


def driver_words(error: BaseException, url: str = "") -> str | None:
    """One line about a failure of the ledger (at ``url``, if known); None where it is not the driver's.

    The PostgreSQL driver is loaded only for a PostgreSQL ledger, so its errors are known by their module.
    A SQLite URL is quoted, it holds no credentials; a PostgreSQL one never is.
    """
    line = " ".join(str(error).split())
    if isinstance(error, sqlite3.Error):
        named = f"{url}: {line}" if url else line
        return named + (_SQLITE if _UNOPENED in line else "")
    if not type(error).__module__.startswith("psycopg"):
        return None
    return line + (_POSTGRES if type(error).__name__ in _UNCONNECTED else "")
