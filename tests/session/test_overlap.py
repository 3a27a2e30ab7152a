"""Epochs that overlap look from outside as if they had run one after the other."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import laminar
from laminar.store import durable_files

pytestmark = pytest.mark.spark

FILES = 7


def rows_of(number: int) -> list[dict[str, int]]:
    return [{"k": (number * 7 + at) % 5, "v": number * 10 + at} for at in range(6)]


@pytest.fixture
def flowing(db: laminar.Database, tmp_path: Path) -> laminar.Database:
    """Files that wait, a stage two views share, a diamond over it, and compaction all the time."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        lines = "".join(json.dumps(row) + "\n" for row in rows_of(number))
        (folder / f"{number:03d}.json").write_text(lines)
    db.execute(
        f"""
        SET laminar.epochs_in_flight = 3;
        SET laminar.compaction_fanout = 2;
        CREATE SOURCE s (k BIGINT, v BIGINT) WITH (
            connector = 'files', path = '{folder}', format = 'json', max_files_per_batch = '1');
        CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
        CREATE MATERIALIZED VIEW tops AS SELECT k, MAX(v) AS top FROM s GROUP BY k;
        CREATE MATERIALIZED VIEW pairs AS
            SELECT k, total, top FROM sums JOIN tops USING (k);
        CREATE MATERIALIZED VIEW steady AS SELECT SUM(total) AS all_of_it FROM pairs;
        """
    )
    return db


def expected(files: int) -> list[tuple[int, int, int]]:
    rows = [row for number in range(files) for row in rows_of(number)]
    totals: Counter[int] = Counter()
    tops: dict[int, int] = {}
    for row in rows:
        totals[row["k"]] += row["v"]
        tops[row["k"]] = max(row["v"], tops.get(row["k"], row["v"]))
    return sorted((k, totals[k], tops[k]) for k in totals)


def test_every_epoch_is_what_it_would_have_been_alone(flowing: laminar.Database) -> None:
    seen: list[int] = []
    flowing.on_epoch(lambda report: seen.append(report.epoch))
    last = flowing.drain()
    assert last is not None
    assert seen == list(range(1, FILES + 1))
    metrics = flowing.engine.work.executor.metrics
    assert metrics is not None
    assert metrics.most_in_flight == 3
    for epoch in (1, 4, FILES):
        found = flowing.sql("SELECT k, total, top FROM pairs", as_of_epoch=epoch)
        assert sorted(found.rows()) == expected(epoch)
        total = flowing.sql("SELECT all_of_it FROM steady", as_of_epoch=epoch)
        assert total.rows() == [(sum(each[1] for each in expected(epoch)),)]


@pytest.mark.long
def test_a_failure_holds_only_the_view_that_fails(flowing: laminar.Database) -> None:
    poison = rows_of(4)[3]["v"]
    flowing.execute(f"CREATE MATERIALIZED VIEW picky AS SELECT SUM(1 / (v - {poison})) AS q FROM s")
    seen: list[int] = []
    flowing.on_epoch(lambda report: seen.append(report.epoch))
    with pytest.raises(laminar.OperatorError, match="picky"):
        flowing.drain()
    assert seen == list(range(1, len(seen) + 1))
    assert flowing.sql("SELECT q FROM picky").epoch == 4
    read = flowing.sql("SELECT k, total, top FROM pairs, picky")  # both as they were then
    assert (read.epoch, sorted(read.rows())) == (4, expected(4))
    assert sorted(flowing.sql("SELECT k, total, top FROM pairs").rows()) == expected(FILES)


def full_disk(point: str) -> None:
    if point == "manifest.before_write":
        raise OSError(28, "No space left on device")


@pytest.mark.long
@pytest.mark.parametrize("barrier", ["aligned", "unaligned"])
def test_checkpoints_of_epochs_in_the_air(
    flowing: laminar.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, barrier: str
) -> None:
    flowing.execute(
        f"SET laminar.checkpoint_barrier = '{barrier}'; SET laminar.checkpoint_interval_ms = 1;"
        "SET laminar.checkpoint_retained = 50"
    )
    flowing.drain()
    flowing.engine.work.checkpoints.settle()
    assert flowing.engine.work.checkpoints.failed == []
    kept = flowing.engine.work.checkpoints.complete
    assert kept
    chosen = next(each for each in kept if each.epoch < FILES)
    if barrier == "unaligned":
        # It waits for nobody, and keeps the rows that were on their way.
        chosen = max((each for each in kept), key=lambda each: len(each.in_flight))
        assert len(chosen.in_flight) >= 2
        for epoch in chosen.in_flight:
            (tmp_path / "in" / f"{int(epoch) - 1:03d}.json").write_text("")
    flowing.execute("SET laminar.checkpoint_interval_ms = 0")
    flowing.restore(chosen.checkpoint_id)
    query = "SELECT k, total, top FROM pairs"
    assert sorted(flowing.sql(query).rows()) == expected(chosen.epoch)
    if barrier == "unaligned":
        # A checkpoint of what waits keeps it, too; so the way back is there more than once.
        flowing.restore(flowing.checkpoint())
        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", full_disk)
            with pytest.raises(laminar.StoreUnwritable):
                flowing.step()
    flowing.drain()
    assert sorted(flowing.sql(query).rows()) == expected(FILES)
    assert not list((tmp_path / "state").glob("in_flight/*/*"))
