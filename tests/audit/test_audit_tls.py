"""The ledger over TLS: a server with a certificate of an authority made for the test."""

from __future__ import annotations

import os
import subprocess

import psycopg
import pytest

from craig_mq.audit import Recorded, open_store
from craig_mq.testing.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """Make two authorities, one of which has signed a certificate for 127.0.0.1; its folder is returned."""
    folder = tmp_path_factory.mktemp("tls")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("trusted", "stranger"):
        _openssl(
            "req", "-x509", *new, "-days", "2", "-subj", f"/CN={name}",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem",
        )  # fmt: skip
    request, extensions = folder / "server.csr", folder / "server.ext"
    _openssl("req", *new, "-subj", "/CN=server", "-keyout", folder / "server.key", "-out", request)
    extensions.write_text("subjectAltName=IP:127.0.0.1\n", encoding="ascii")
    _openssl(
        "x509", "-req", "-days", "2", "-in", request, "-extfile", extensions, "-set_serial", "2",
        "-CA", folder / "trusted.pem", "-CAkey", folder / "trusted.key", "-out", folder / "server.pem",
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def tls_server(authorities):
    """Run a server that takes TCP connections over TLS alone."""
    server = PostgresServer({"ssl": "on"})
    try:
        for ending in ("pem", "key"):
            target = server.data / f"server.{'crt' if ending == 'pem' else 'key'}"
            target.write_bytes((authorities / f"server.{ending}").read_bytes())
            target.chmod(0o600)
            os.chown(target, *server.owner)
        (server.data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n", encoding="ascii")
        server.start()
        yield server
    finally:
        server.close()


def _verifying(server, authority, **more):
    return f"{server.url(**more)}?sslmode=verify-full&sslrootcert={authority}"


async def test_rows_are_committed_over_verified_tls(tls_server, authorities, make_row):
    """With sslmode=verify-full and the authority's certificate a row is committed over TLS 1.2 or later."""
    async with open_store(_verifying(tls_server, authorities / "trusted.pem")) as store:
        outcome = await store.record(make_row(1))
        [session] = await store.run(
            lambda database: database.fetch(
                "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            )
        )
        assert (await store.get(outcome.id)).body == make_row(1).body
    assert isinstance(outcome, Recorded)
    assert session[0] is True
    assert session[1] in {"TLSv1.2", "TLSv1.3"}


@pytest.mark.parametrize(
    ("authority", "host", "why"),
    [
        ("stranger.pem", "127.0.0.1", "certificate verify failed"),
        ("trusted.pem", "localhost", "does not match host name"),
    ],
)
async def test_a_server_that_does_not_prove_itself_is_refused(tls_server, authorities, authority, host, why):
    """A certificate of another authority, or for another host, opens no store."""
    with pytest.raises(psycopg.OperationalError, match=why):
        async with open_store(_verifying(tls_server, authorities / authority, host=host)):
            pass


async def test_the_clear_is_refused_by_a_server_with_tls_alone(tls_server):
    """A server that takes TLS alone has no entry for a session in the clear."""
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        async with open_store(f"{tls_server.url()}?sslmode=disable"):
            pass
