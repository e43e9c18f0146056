"""Opening a store by its URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from craig_mq.audit.database import Backend
from craig_mq.audit.errors import StoreUrlError
from craig_mq.audit.ledger import Ledger, LedgerOptions
from craig_mq.audit.sqlite.backend import SqliteBackend

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
DEFAULT_OPTIONS = LedgerOptions()


@asynccontextmanager
async def open_store(url: str, options: LedgerOptions = DEFAULT_OPTIONS) -> AsyncGenerator[Ledger]:
    """Open the ledger at ``url`` for the length of the block, and bring its schema up to date.

    ``sqlite:///FILE`` (four slashes for an absolute path) is embedded; ``postgresql://…`` takes every
    libpq parameter, TLS ones included. Raises ``StoreUrlError``, ``SchemaOutdated`` or the driver's
    error when it can't be opened.

    Leaving the block commits what already waits, then closes. Cancelled: the group in hand is
    finished within the commit timeout, and every other waiting ``record`` is refused with
    ``StoreClosed``; nothing is ever half written.
    """
    async with open_ledger(backend_of(url), options) as store:
        yield store


@asynccontextmanager
async def open_ledger(backend: Backend, options: LedgerOptions = DEFAULT_OPTIONS) -> AsyncGenerator[Ledger]:
    """As ``open_store``, on a backend with settings of its own."""
    store = Ledger(backend, options)
    try:
        await store.migrate()
        async with trio.open_nursery() as nursery:
            await nursery.start(store.serve)
            try:
                yield store
            finally:
                store.close()
    except BaseExceptionGroup as group:
        raise _sole(group) from None
    finally:
        await store.aclose()


def _sole(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The block's exception as it was raised: the nursery around the block is this module's own affair."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group


def shown_url(url: str) -> str:
    """``url`` as an output may show it, without credentials; of one that ``open_store`` takes."""
    if url.startswith(_SQLITE):
        return url
    from craig_mq.audit.postgres.settings import shown_address

    return shown_address(url)


def backend_of(url: str) -> Backend:
    """The backend ``url`` names. The PostgreSQL driver is imported only when asked for."""
    if url.startswith(_SQLITE):
        path = url.removeprefix(_SQLITE)
        if not path or path == ":memory:":
            raise StoreUrlError("sqlite:///FILE needs a file: an ack must outlive the process")
        return SqliteBackend(path)
    if url.startswith(_POSTGRES):
        try:
            from craig_mq.audit.postgres.backend import PostgresBackend
            from craig_mq.audit.postgres.settings import checked_url
        except ImportError as error:
            raise StoreUrlError("PostgreSQL needs the extra: pip install 'craig-mq[postgres]'") from error
        return PostgresBackend(checked_url(url))
    # No part of it is quoted: a mistyped URL has its password in an unexpected place.
    raise StoreUrlError("unknown kind of store: use sqlite:///FILE or postgresql://…")
