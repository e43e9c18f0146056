"""Many writers and many rows: reduced counts by default, the full ones under ``soak``."""

from __future__ import annotations

import resource
import sys
from datetime import timedelta
from time import perf_counter

import pytest
import trio

from craig_mq.audit import LedgerOptions, RowFilter, open_store
from craig_mq.audit.identifiers import row_id
from craig_mq.audit.row import Entry
from craig_mq.audit.verify import verify
from craig_mq.audit.writing import write_group

WRITERS = """
import random, sys, trio
from datetime import UTC, datetime
from craig_mq.audit import AuditRow, Recorded, open_store
from craig_mq.core.disposition import Disposition, DlqError

url, seed, tokens, writers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
order = list(range(tokens))
random.Random(seed).shuffle(order)

async def deliver(store, number):
    token, now = f"occ1:broker:{number:032x}", datetime.now(UTC)
    row = AuditRow(token, str(number), "s", "t", now, "q", b"%d" % number)
    while True:
        try:
            return await store.record(row)
        except DlqError as error:
            if error.disposition is not Disposition.TRANSIENT_RETRY:
                raise
            await trio.sleep(0.01)

async def main():
    numbers, recorded = iter(order), 0
    async with open_store(url) as store, trio.open_nursery() as nursery:
        async def writer():
            nonlocal recorded
            for number in numbers:
                outcome = await deliver(store, number)
                recorded += isinstance(outcome, Recorded)
        for _ in range(writers):
            nursery.start_soon(writer)
    print(recorded)

trio.run(main)
"""


async def _fifty_writers(store_url, tokens):
    """Let fifty writers record the same tokens; what each way of counting the rows says."""
    async with open_store(store_url):
        pass
    recorded = []

    async def process(seed, writers):
        command = [sys.executable, "-c", WRITERS, store_url, str(seed), str(tokens), str(writers)]
        recorded.append(int((await trio.run_process(command, capture_stdout=True)).stdout))

    async with trio.open_nursery() as nursery:
        for seed, writers in enumerate((13, 13, 12, 12)):
            nursery.start_soon(process, seed, writers)
    async with open_store(store_url) as store:
        stats, report = await store.stats(), await verify(store)
    assert report.intact
    return {stats.hot, stats.recorded, sum(recorded), report.rows}


async def test_fifty_writers_of_four_processes_make_one_row_a_token(store_url):
    """Fifty writers in four processes record the same 200 tokens in different orders: 200 rows."""
    assert await _fifty_writers(store_url, 200) == {200}


@pytest.mark.soak
async def test_fifty_writers_and_ten_thousand_tokens(store_url):
    """Fifty writers in four processes record the same 10,000 tokens in different orders: 10,000 rows."""
    assert await _fifty_writers(store_url, 10_000) == {10_000}


async def _fill(store, make_row, clock, rows, batch=1000):
    for start in range(0, rows, batch):
        entries = [
            Entry(row_id(clock.now, number.to_bytes(10, "big")), clock.now, make_row(number))
            for number in range(start, min(start + batch, rows))
        ]
        await store.run(lambda database, entries=entries: write_group(database, entries))
        clock.advance(timedelta(milliseconds=20))


async def _stays_responsive(store_url, make_row, clock, rows):
    """Work through a ledger of ``rows`` rows: seconds and MiB each kind of work took, a page's plan."""
    timings, grown, steps = {}, {}, []

    async def timed(name, work):
        began, before = perf_counter(), _peak_mib()
        result = await work
        timings[name], grown[name] = perf_counter() - began, _peak_mib() - before
        return result

    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        began = perf_counter()
        await _fill(store, make_row, clock, rows)
        timings["fill"] = perf_counter() - began
        clock.advance(timedelta(hours=1))
        plan = await store.run(lambda database: _explain(database, PLANS["page"]))
        assert len(await timed("list", store.find(limit=50))) == 50
        assert len(await timed("list by token", store.find(RowFilter(token=make_row(rows // 2).token)))) == 1
        assert await timed("list divergent", store.find(RowFilter(divergent=True))) == []
        assert (await timed("stats", store.stats())).hot == rows
        report = await timed("verify", verify(store, on_progress=steps.append))
        assert (report.intact, report.rows, len(steps)) == (True, rows, -(-rows // 500))
        [newest] = await store.find(limit=1)
        half = newest.recorded_at - timedelta(milliseconds=10 * rows // 1000)
        steps.clear()
        moved = await timed("prune", store.prune(half, on_progress=steps.append))
        assert len(steps) == -(-moved // 500)
        assert (await store.stats()).whole
    return timings, grown, plan


async def test_queries_stay_responsive(store_url, make_row, clock):
    """With 5,000 rows list, stats, verify and prune work in pages and batches and report each of them."""
    timings, _, _ = await _stays_responsive(store_url, make_row, clock, 5_000)
    assert timings.keys() - {"fill"} == {
        "list",
        "list by token",
        "list divergent",
        "stats",
        "verify",
        "prune",
    }


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_a_million_rows_stay_responsive(store_url, make_row, clock):
    """With 1,000,000 rows a list takes under 1 s, by index, stats under 10; nothing takes 64 MiB more."""
    timings, grown, plan = await _stays_responsive(store_url, make_row, clock, 1_000_000)
    for name, seconds in timings.items():
        print(f"{name:>16} {seconds:9.3f} s {grown.get(name, 0.0):6.1f} MiB")  # noqa: T201 - figures to quote
    print(plan)  # noqa: T201
    assert max(grown.values()) < 64
    assert "Seq Scan" not in plan
    assert max(timings["list"], timings["list by token"], timings["list divergent"]) < 1.0
    assert timings["stats"] < 10.0


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _explain(database, query):
    """The plan of a query, as either database words it."""
    if database.exclusive:
        return " ".join(str(row[3]) for row in database.fetch(f"EXPLAIN QUERY PLAN {query}"))
    return " ".join(str(row[0]) for row in database.fetch(f"EXPLAIN {query}"))


PLANS = {
    "token": "SELECT id FROM occurrence WHERE token IN ('a', 'b')",
    "threshold": "SELECT 1 FROM occurrence"
    " WHERE source_service = 's' AND event_type = 't' AND occurred_at > {time}",
    "page": "SELECT id FROM occurrence ORDER BY id DESC LIMIT 50",
    "queue": "SELECT id FROM occurrence WHERE queue = 'q' ORDER BY id DESC LIMIT 50",
    "reason": "SELECT id FROM occurrence WHERE reason = 'r' ORDER BY id DESC LIMIT 50",
    "archived queue": "SELECT id FROM archived_occurrence WHERE queue = 'q' ORDER BY id DESC LIMIT 50",
    "archived reason": "SELECT id FROM archived_occurrence WHERE reason = 'r' ORDER BY id DESC LIMIT 50",
    "divergent": "SELECT id FROM occurrence WHERE divergent ORDER BY id DESC LIMIT 50",
    "chain": "SELECT id FROM occurrence WHERE writer = 'w' AND seq > 5 AND seq <= 9",
    "archived chain": "SELECT id FROM archived_occurrence WHERE writer = 'w' AND seq > 5 AND seq <= 9",
    "purge": "SELECT id FROM archived_occurrence WHERE archived_at < {time}",
}


@pytest.mark.parametrize("name", PLANS)
async def test_every_frequent_query_uses_an_index(store_url, name):
    """No frequent query of the ledger scans a table; a page of one queue or reason has its own index."""
    sqlite = store_url.startswith("sqlite")
    query = PLANS[name].format(time="5" if sqlite else "now()")

    def plan(database):
        if not sqlite:
            database.execute("SET enable_seqscan = off")  # an empty table is scanned whatever its indexes
        return _explain(database, query)

    async with open_store(store_url) as store:
        text = await store.run(plan)
    assert "INDEX" in text.upper()
    assert "Seq Scan" not in text
    assert name not in {"queue", "reason"} or f"occurrence_{name}" in text
