"""Tamper evidence on both stores: whatever is changed behind the ledger's back, verify finds."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
import trio

from craig_mq.audit import LedgerOptions, Recorded, open_store
from craig_mq.audit.errors import ExportError
from craig_mq.audit.export import MANIFEST, export
from craig_mq.audit.export_check import verify_export
from craig_mq.audit.identifiers import row_id
from craig_mq.audit.importing import import_export
from craig_mq.audit.row import Entry
from craig_mq.audit.verify import verify
from craig_mq.audit.writing import write_group

CHANGES = {
    "an edited column": "UPDATE {table} SET queue = 'elsewhere' WHERE seq = 5",
    "an edited time": "UPDATE {table} SET occurred_at = recorded_at WHERE seq = 5",
    "an edited body": "UPDATE {table} SET body = content_sha256 WHERE seq = 5",
    "an edited id": "UPDATE {table} SET id = '00000000-0000-0000-0000-00000000abcd' WHERE seq = 5",
    "a lifted flag": "UPDATE {table} SET divergent = NOT divergent, token = NULL WHERE seq = 5",
    "a removed row": "DELETE FROM {table} WHERE seq = 5",
    "a removed run": "DELETE FROM {table} WHERE seq BETWEEN 3 AND 8",
    "a removed first row": "DELETE FROM {table} WHERE seq = 1",
    "a removed tail": "DELETE FROM {table} WHERE seq > 17",
    "a forged link": "UPDATE {table} SET chain = content_sha256 WHERE seq = 20",
    "a foreign writer": "UPDATE {table} SET writer = 'somebody' WHERE seq = 20",
}


async def _filled(store, make_row, clock, count=20):
    """Record ``count`` rows in one transaction, so that they are one run of one chain."""
    entries = [
        Entry(row_id(clock.now, bytes([number] * 10)), clock.now, make_row(number)) for number in range(count)
    ]
    verdicts = await store.run(lambda database: write_group(database, entries))
    assert all(isinstance(one, Recorded) for one in verdicts)
    clock.advance(timedelta(hours=2))


async def test_an_untouched_ledger_is_intact(store_url, make_row, clock):
    """Across hot window, archive, purged and divergent rows verify finds nothing and accounts for all."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock)
        await store.prune(clock.now)
        clock.advance(timedelta(hours=1))
        await store.purge(clock.now)
        await _filled(store, make_row, clock)
        await store.prune(clock.now)
        await store.record(make_row(1))
        await store.record(make_row(1, body=b"other"))
        [writer] = (await store.stats()).writers
        steps = []
        report = await verify(store, anchors=[writer.chain], on_progress=steps.append)
        stats = await store.stats()
    assert (report.intact, report.rows, report.purged) == (True, 22, 20)
    assert stats.whole
    assert (steps[-1].done, steps[-1].total) == (42, 42)


@pytest.mark.parametrize("table", ["occurrence", "archived_occurrence"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_change_is_found(store_url, make_row, clock, change, table):
    """Any edited, removed or added row is found, in the hot window and in the archive."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock)
        if table == "archived_occurrence":
            await store.prune(clock.now)
        await store.run(lambda database: database.execute(change.format(table=table)))
        report = await verify(store)
    assert not report.intact
    assert len(report.findings) <= 2  # each change is told once, not once for every row after it


async def test_reordered_rows_are_found(store_url, make_row, clock):
    """Two rows that swapped their places are both found."""
    swap = "UPDATE occurrence SET seq = {to} WHERE seq = {of}"
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock)
        for of, to in ((5, 999), (6, 5), (999, 6)):
            await store.run(lambda database, of=of, to=to: database.execute(swap.format(of=of, to=to)))
        report = await verify(store)
    assert {finding.seq for finding in report.findings} >= {5, 6}


async def test_a_tail_removed_with_its_head_needs_the_anchor(store_url, make_row, clock):
    """Whoever also rewrites the head is found by the last hash that was kept elsewhere, and only by it."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock)
        [writer] = (await store.stats()).writers

        def cut(database):
            [(seq, chain)] = database.fetch("SELECT seq, chain FROM occurrence WHERE seq = 15")
            database.execute("UPDATE writer SET seq = ?, chain = ?", (seq, chain))
            database.execute("DELETE FROM occurrence WHERE seq > 15")

        await store.run(cut)
        assert (await verify(store)).intact
        report = await verify(store, anchors=[writer.chain])
    assert not report.intact
    assert report.missing_anchors == (writer.chain.hex(),)


async def test_a_purge_leaves_a_record_that_covers_only_itself(store_url, make_row, clock):
    """The gap of a purge is accepted; a row removed beside it is still found."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock, 10)
        await store.prune(clock.now)
        clock.advance(timedelta(hours=1))
        early = clock.now
        await _filled(store, make_row, clock, 10)
        await store.prune(clock.now)
        assert await store.purge(early) == 10
        assert (await verify(store)).intact
        await store.run(lambda database: database.execute("DELETE FROM archived_occurrence WHERE seq = 11"))
        report = await verify(store)
    assert [finding.text for finding in report.findings] == ["row 11 is missing"]


async def test_a_forged_gap_is_found(store_url, make_row, clock):
    """A gap record invented for a removed row doesn't fit the links around it."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock)

        def hide(database):
            [(writer, chain, at)] = database.fetch(
                "SELECT writer, chain, recorded_at FROM occurrence WHERE seq = 3"
            )
            database.execute("INSERT INTO gap VALUES (?, 5, 5, ?, ?, ?)", (writer, chain, chain, at))
            database.execute("DELETE FROM occurrence WHERE seq = 5")

        await store.run(hide)
        assert not (await verify(store)).intact


async def test_an_export_verifies_and_comes_back(store_url, make_row, clock, tmp_path):
    """Exported, purged and imported again, the archive is the same, row for row, and nothing is doubled."""
    folder = tmp_path / "export"
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock)
        await store.prune(clock.now)
        before = await store.find(archived=True, bodies=True)
        written = await export(store, folder, scope="archive")
        [writer] = (await store.stats()).writers
        clock.advance(timedelta(hours=1))
        assert await store.purge(clock.now) == written.rows == 20
        await _filled(store, make_row, clock)
        report = await trio.to_thread.run_sync(partial(verify_export, folder, anchors=[writer.chain]))
        assert (report.intact, report.rows) == (True, 20)
        first = await import_export(store, folder)
        again = await import_export(store, folder)
        assert (first.imported, first.present, again.imported, again.present) == (20, 0, 0, 20)
        assert await store.find(archived=True, bodies=True) == before
        stats, verified = await store.stats(), await verify(store)
    assert (stats.hot, stats.archived, stats.purged, stats.whole) == (20, 20, 0, True)
    assert (verified.intact, verified.rows) == (True, 40)


async def test_an_import_into_another_ledger_keeps_its_own_account(store_url, make_row, clock, tmp_path):
    """Rows of another ledger join the archive with their chain; this ledger's account stays whole."""
    folder = tmp_path / "export"
    options = LedgerOptions(clock=clock)
    async with open_store(f"sqlite:///{tmp_path}/other.db", options) as other:
        await _filled(other, make_row, clock)
        await other.prune(clock.now - timedelta(hours=1))
        await _filled(other, make_row, clock)
        await export(other, folder, scope="hot")
    async with open_store(store_url, options) as store:
        await _filled(store, make_row, clock)
        await import_export(store, folder)
        stats, report = await store.stats(), await verify(store)
        await store.record(make_row(99))
        assert (await verify(store)).intact
    assert (stats.hot, stats.archived, stats.imported, stats.whole) == (20, 0, 20, True)
    assert (report.intact, report.rows, report.purged) == (True, 40, 20)


@pytest.mark.parametrize(
    "damage", ["changed part", "missing part", "missing manifest", "wrong format", "no row"]
)
async def test_a_damaged_export_is_refused(store_url, make_row, clock, tmp_path, damage):
    """A part or manifest that isn't what was written is named, and nothing of it is imported."""
    folder = tmp_path / "export"
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _filled(store, make_row, clock)
        await export(store, folder)
        part, manifest = folder / "part-00001.jsonl", folder / MANIFEST
        if damage == "changed part":
            part.write_bytes(part.read_bytes().replace(b"billing", b"Billing", 1))
        elif damage == "missing part":
            part.unlink()
        elif damage == "missing manifest":
            manifest.unlink()
        elif damage == "wrong format":
            manifest.write_text(manifest.read_text().replace("craig_mq.audit/1", "craig_mq.audit/2"))
        else:
            manifest.write_text(
                manifest.read_text().replace('"rows": 20,\n  "parts"', '"rows": 21,\n  "parts"')
            )
        with pytest.raises(ExportError):
            await import_export(store, folder)
        assert (await store.stats()).archived == 0


async def test_an_export_needs_a_folder_of_its_own(store_url, tmp_path):
    """An export never writes into a folder that holds something."""
    (tmp_path / "mine").write_text("")
    async with open_store(store_url) as store:
        with pytest.raises(ExportError, match="not empty"):
            await export(store, tmp_path)
