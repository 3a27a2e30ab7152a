"""Primary keys: tables refuse a second row, sources replace the first."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.testing import Oracle
from laminar.testing.live import LiveRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VIEWS = (
    "CREATE MATERIALIZED VIEW per_group AS"
    " SELECT g, COUNT(*) AS n, SUM(x) AS total, MAX(x) AS top FROM s GROUP BY g;"
    "CREATE MATERIALIZED VIEW wide AS SELECT id, x * 2 AS y FROM s WHERE x > 2;"
    "CREATE MATERIALIZED VIEW both AS"
    " SELECT w.id, p.total FROM wide w JOIN s ON s.id = w.id JOIN per_group p ON p.g = s.g"
)


def upsert(live: LiveRows, rows: list[tuple[Any, ...]]) -> None:
    """The law in plain Python: the last row of a key is the one that is there."""
    newest = {row[0]: row for row in [*live.rows, *rows]}
    live.rows = list(newest.values())
    live.version += 1


def batch(chance: random.Random, size: int) -> list[tuple[int, str, int]]:
    return [(chance.randint(0, 6), chance.choice("ab"), chance.randint(0, 5)) for _ in range(size)]


@pytest.mark.long
def test_pushed_rows_replace_each_other(db: laminar.Database, spark: SparkSession) -> None:
    db.execute("CREATE SOURCE s (id INT, g STRING, x INT, PRIMARY KEY (id))")
    db.execute(VIEWS)
    oracle = Oracle(db, spark)
    live = oracle.tables["s"] = LiveRows()
    chance = random.Random(4)
    for size in (6, 4):
        for rows in (batch(chance, size), batch(chance, 2)):
            assert db.insert("s", rows) == len(rows)
            upsert(live, rows)
        oracle.step()
    gone = live.rows[:1]
    db.delete("s", gone)
    live.delete(gone)
    db.execute("UPDATE s SET x = 9 WHERE id = (SELECT MAX(id) FROM s)")
    last = max(live.rows)
    upsert(live, [(last[0], last[1], 9)])
    with pytest.raises(laminar.DuplicateKey):
        db.execute("UPDATE s SET id = 3")
    with pytest.raises(laminar.RowDoesNotMatch):
        db.insert("s", [(None, "a", 1)])
    oracle.step()


@pytest.mark.long
def test_a_connector_delivers_new_versions(
    db: laminar.Database, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    db.execute(
        "CREATE SOURCE s (id INT PRIMARY KEY, g STRING, x INT)"
        f" WITH (connector = 'files', path = '{folder}', format = 'json')"
    )
    db.execute(VIEWS)
    oracle = Oracle(db, spark)
    live = oracle.tables["s"] = LiveRows()
    chance = random.Random(5)
    for number in range(3):
        rows = batch(chance, 6)
        lines = (json.dumps(dict(zip(("id", "g", "x"), row, strict=True))) for row in rows)
        (folder / f"{number}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
        upsert(live, rows)
        oracle.step()
    # Rows that are there already change nothing, not even a segment.
    segments = len(db.engine.ledger.manifest.traces["s"].segments)
    same = dict(zip(("id", "g", "x"), live.rows[0], strict=True))
    versions = "".join(json.dumps(row) + "\n" for row in ({**same, "x": -1}, same))
    (folder / "9.json").write_text(versions, encoding="utf-8")
    before = db.metrics().prefixes["s"]
    assert db.step() is not None
    assert len(db.engine.ledger.manifest.traces["s"].segments) == segments
    # A version that another one follows in the same poll does not even cross the bridge.
    after = db.metrics().prefixes["s"]
    assert (after.rows_in - before.rows_in, after.rows_kept - before.rows_kept) == (2, 1)
    told = [row[0] for row in db.execute("EXPLAIN DAG").rows()]
    counted = f"rows in: {after.rows_in}, rows surviving: {after.rows_kept}"
    (line,) = [each for each in told if each.startswith("Prefix of s")]
    assert "keeps the last row of each id" in line
    assert counted in line


def test_a_table_keeps_its_keys(db: laminar.Database, spark: SparkSession) -> None:
    db.execute(
        "CREATE TABLE t (a INT, b STRING, c INT, PRIMARY KEY (b, a));"
        "CREATE MATERIALIZED VIEW v AS SELECT b, SUM(c) AS c FROM t GROUP BY b"
    )
    oracle = Oracle(db, spark)
    oracle.tables["t"] = LiveRows()
    oracle.insert("t", [(1, "x", 1), (2, "x", 2), (1, "y", 3)])
    oracle.step()
    oracle.insert("t", [(3, "x", 4)])
    for rows in ([(2, "x", 9)], [(3, "x", 9)], [(7, "z", 1), (7, "z", 1)]):
        with pytest.raises(laminar.DuplicateKey) as caught:
            db.insert("t", [*rows, (8, "new", 1)])
        assert caught.value.key == ("b", "a")
    with pytest.raises(laminar.DuplicateKey):
        db.execute("INSERT INTO t SELECT a, 'x', c FROM t")
    # Keys may move past each other, as long as the end is in order.
    assert db.execute("UPDATE t SET a = a + 1 WHERE b = 'x'") == 3
    oracle.tables["t"].rows = [(2, "x", 1), (3, "x", 2), (4, "x", 4), (1, "y", 3)]
    oracle.tables["t"].version += 1
    # What was deleted may come again, before an epoch has run.
    oracle.delete("t", [(2, "x", 1)])
    oracle.insert("t", [(2, "x", 5)])
    oracle.step()


def test_merge_is_an_epochs_delta(db: laminar.Database, spark: SparkSession) -> None:
    db.execute(
        "CREATE TABLE t (id INT, x INT);"
        "CREATE TABLE s (id INT, x INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT id, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY id"
    )
    oracle = Oracle(db, spark)
    oracle.tables |= {"t": LiveRows(), "s": LiveRows()}
    oracle.insert("t", [(1, 1), (1, 1), (2, 2), (3, 3), (4, None)])
    oracle.insert("s", [(1, 10), (2, 20), (5, 50), (6, None)])
    db.step()
    # A bag: both copies of a row are changed.
    changed = db.execute(
        "MERGE INTO t AS old USING s AS new ON old.id = new.id AND new.x IS NOT NULL"
        " WHEN MATCHED AND old.id = 2 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET x = old.x + new.x"
        " WHEN NOT MATCHED AND new.id = 5 THEN INSERT (x, id) VALUES (new.x, new.id)"
        " WHEN NOT MATCHED BY SOURCE AND old.x IS NULL THEN UPDATE SET old.x = 0"
    )
    assert changed == 5
    oracle.tables["t"].rows = [(1, 11), (1, 11), (3, 3), (4, 0), (5, 50)]
    oracle.tables["t"].version += 1
    oracle.step()
    with pytest.raises(laminar.MergeConflict):
        db.execute(
            "MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET x = 0"
        )
    assert db.step() is None
    same = "MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert db.execute(f"{same} WHEN NOT MATCHED THEN INSERT *") == 5
    oracle.tables["t"].rows = []
    oracle.tables["t"].version += 1
    oracle.step()


def test_rows_that_wait_are_found_in_any_folder(spark: SparkSession, tmp_path: Path) -> None:
    # Signs that mean something in a pattern must not in a folder's name.
    with laminar.connect(tmp_path / "a[1]{x,y}", spark=spark) as db:
        db.execute("CREATE TABLE t (id INT, PRIMARY KEY (id)); INSERT INTO t VALUES (1)")
        with pytest.raises(laminar.DuplicateKey):
            db.execute("INSERT INTO t VALUES (1)")


def test_rows_from_before_a_table_had_its_key_are_no_past_of_it(db: laminar.Database) -> None:
    """Else a change of two rows of the old key would be told as an update of one of the new."""
    db.execute("CREATE TABLE t (n INT, m INT, PRIMARY KEY (n, m))")
    db.insert("t", [(1, 1)])
    db.step()
    db.insert("t", [(1, 2)])
    db.step()
    db.execute("DROP TABLE t; CREATE TABLE t (n INT, m INT, PRIMARY KEY (n))")
    db.insert("t", [(1, 3)])
    db.step()
    for query in ("SELECT * FROM t AS OF EPOCH 1", "SELECT * FROM table_changes('t', 2)"):
        with pytest.raises(laminar.NotSupported, match="not what it is now"):
            db.sql(query)
    assert db.sql("SELECT n, m FROM table_changes('t', 3)").rows() == [(1, 3)]
