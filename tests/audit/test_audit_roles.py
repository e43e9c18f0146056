"""The documented roles of PostgreSQL: each can do its job and nothing else; TLS is used when asked for."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from craig_mq.audit import LedgerOptions, Phantom, Recorded, open_store
from craig_mq.audit.errors import SchemaOutdated
from craig_mq.audit.verify import verify
from craig_mq.core.disposition import Disposition, DlqError

pytestmark = pytest.mark.postgres

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "audit_postgres.md"
ROLES = ("writer", "reader", "archivist", "operator")


@pytest.fixture
async def url_of(postgres, postgres_url):
    """The ledger's URL for a login that has one documented role; the SQL is the page's own."""
    async with open_store(postgres_url):
        pass
    [sql] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(sql)
        for role in ROLES:
            owner.execute(f"CREATE ROLE {role}_login LOGIN IN ROLE craig_audit_{role}")
    yield lambda role: postgres.url(user=f"{role}_login")
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        for role in ROLES:
            owner.execute(f"DROP OWNED BY craig_audit_{role}")
            owner.execute(f"DROP ROLE {role}_login")
        for role in reversed(ROLES):
            owner.execute(f"DROP ROLE craig_audit_{role}")


def _refused(url, sql):
    with (
        psycopg.connect(url, autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(f"SET search_path = craig_audit; {sql}")


async def test_the_writer_records_and_can_change_nothing(url_of, make_row, clock):
    """A recorder inserts, absorbs and alerts, but no row it wrote can it change or delete."""
    fired = []
    options = LedgerOptions(clock=clock, alert_threshold=2, on_alert=fired.append)
    async with open_store(url_of("writer"), options) as store:
        assert isinstance(await store.record(make_row(1)), Recorded)
        assert isinstance(await store.record(make_row(1)), Phantom)
        await store.record(make_row(1, body=b"other"))
        assert len(fired) == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await store.prune(clock.now + timedelta(hours=1))
    for sql in (
        "UPDATE occurrence SET queue = 'x'",
        "DELETE FROM occurrence",
        "TRUNCATE occurrence",
        "INSERT INTO archived_occurrence SELECT *, now() FROM occurrence",
        "DELETE FROM gap",
        "DROP TABLE occurrence",
        "CREATE TABLE mine (a int)",
    ):
        _refused(url_of("writer"), sql)


async def test_the_reader_sees_and_a_delivery_it_gets_parks(url_of, make_row):
    """A reader lists, counts and verifies; a recorder misconfigured as one parks what it gets (class 42)."""
    async with open_store(url_of("writer")) as store:
        await store.record(make_row(1))
    async with open_store(url_of("reader")) as store:
        assert len(await store.find()) == 1
        assert (await store.stats()).whole
        assert (await verify(store)).intact
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(2))
    assert caught.value.disposition is Disposition.TRANSIENT_PARK
    _refused(url_of("reader"), "DELETE FROM alert")


async def test_the_archivist_moves_and_purges(url_of, make_row, clock):
    """The archivist prunes and purges, and edits no row."""
    async with open_store(url_of("writer"), LedgerOptions(clock=clock)) as store:
        await store.record(make_row(1))
    clock.advance(timedelta(days=1))
    async with open_store(url_of("archivist"), LedgerOptions(clock=clock)) as store:
        assert await store.prune(clock.now) == 1
        clock.advance(timedelta(days=1))
        assert await store.purge(clock.now) == 1
        assert (await verify(store)).intact
    _refused(url_of("archivist"), "UPDATE occurrence SET queue = 'x'")
    _refused(url_of("archivist"), "UPDATE archived_occurrence SET queue = 'x'")


async def test_the_operator_adds_to_the_log_of_acts_alone(url_of, make_row):
    """An operator looks and adds acts; neither rows nor acts that are written can it change."""
    async with open_store(url_of("writer")) as store:
        await store.record(make_row(1))
    async with open_store(url_of("operator")) as store:
        assert len(await store.find()) == 1
    with psycopg.connect(url_of("operator"), autocommit=True) as operator:
        operator.execute("INSERT INTO craig_audit.redriven_capture VALUES ('c', 'p', 'me', now())")
    for sql in (
        "INSERT INTO occurrence SELECT * FROM occurrence",
        "DELETE FROM operator_action",
        "UPDATE redriven_capture SET who = 'you'",
    ):
        _refused(url_of("operator"), sql)


async def test_a_role_that_may_not_migrate_is_told(postgres, postgres_url):
    """On a database without the schema a plain role gets SchemaOutdated, which says what to do."""
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE ROLE plain LOGIN")
    try:
        with pytest.raises(SchemaOutdated, match="as the owner"):
            async with open_store(postgres.url(user="plain")):
                pass
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as owner:
            owner.execute("DROP ROLE plain")


async def test_tls_that_the_server_lacks_is_refused(postgres_url):
    """Sslmode of the URL reaches the driver: a server without TLS is refused, never used in the clear."""
    with pytest.raises(psycopg.OperationalError, match="SSL"):
        async with open_store(f"{postgres_url}?sslmode=require"):
            pass
