"""Columns packed as PostgreSQL arrays: what the server reads is what went in."""

import struct

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from craig_mq.audit.postgres.arrays import Packed, PackedDumper, packed
from craig_mq.audit.row import moment

TEXTS = st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMNS = {
    "text": st.lists(TEXTS, min_size=1, max_size=8),
    "bytea": st.lists(st.binary(max_size=40), min_size=1, max_size=8),
    "uuid": st.lists(st.none() | st.uuids(), min_size=1, max_size=8),
    "bigint": st.lists(INT64, min_size=1, max_size=8),
    "boolean": st.lists(st.booleans(), min_size=1, max_size=8),
    "timestamptz": st.lists(
        st.integers(-62_000_000_000_000_000, 253_000_000_000_000_000), min_size=1, max_size=8
    ),
}


@pytest.fixture
def connection(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as opened:
        opened.adapters.register_dumper(Packed, PackedDumper)
        opened.execute("SET timezone = 'UTC'")
        yield opened


@pytest.mark.postgres
@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_server_reads_the_values_that_were_packed(connection, kind, data):
    """Every value of a packed column, NULLs included, comes back from the server as it went in."""
    values = data.draw(COLUMNS[kind])
    query = sql.SQL("SELECT value FROM unnest(%b::{}[]) WITH ORDINALITY AS row (value, place) ORDER BY place")
    rows = connection.execute(query.format(sql.SQL(kind)), packed([kind], [values]), binary=True).fetchall()
    expected = [moment(value) for value in values] if kind == "timestamptz" else values
    assert [value for (value,) in rows] == expected


def test_a_number_beyond_64_bits_is_refused():
    """A bigint column holds 64 bits: more is an error on this side, before anything is sent."""
    with pytest.raises(struct.error):
        packed(["bigint"], [[2**63]])
