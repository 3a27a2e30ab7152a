"""Changes as rows of a query, with the columns that Spark gives them."""

from __future__ import annotations

import pytest

import laminar

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_each_change_is_a_row(db: laminar.Database) -> None:
    db.execute(
        "CREATE TABLE t (id INT, x INT, PRIMARY KEY (id)); CREATE TABLE bag (x INT);"
        "CREATE MATERIALIZED VIEW sums AS SELECT x % 2 AS odd, SUM(id) AS s FROM t GROUP BY x % 2;"
        "CREATE MATERIALIZED VIEW large AS SELECT s, odd FROM sums WHERE s > 1;"
        "INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO bag VALUES (7), (7)"
    )
    db.step()
    db.execute("UPDATE t SET x = 3 WHERE id = 1; INSERT INTO t VALUES (3, 3)")
    db.execute("DELETE FROM bag WHERE x = 7; INSERT INTO bag VALUES (8)")
    db.step()
    db.execute("DELETE FROM t WHERE id = 2")
    db.step()

    def changes(relation: str, *span: int) -> list[tuple[object, ...]]:
        given = ", ".join(map(str, (f"'{relation}'", *span)))
        rows = db.sql(f"SELECT * EXCEPT (_commit_timestamp) FROM table_changes({given})").rows()
        return sorted(rows, key=lambda row: (row[-1], str(row)))

    assert changes("t", 1) == [
        (1, 1, "insert", 1),
        (2, 2, "insert", 1),
        (1, 1, "update_preimage", 2),
        (1, 3, "update_postimage", 2),
        (3, 3, "insert", 2),
        (2, 2, "delete", 3),
    ]
    assert changes("bag", 0, 2) == [
        *[(7, "insert", 1)] * 2,
        *[(7, "delete", 2)] * 2,
        (8, "insert", 2),
    ]
    # A group is told by its keys, also below a projection and a filter.
    assert changes("sums", 2, 2) == [(1, 1, "update_preimage", 2), (1, 4, "update_postimage", 2)]
    assert changes("large", 2, 3) == [(4, 1, "insert", 2), (2, 0, "delete", 3)]
    told = db.sql(
        "SELECT c.id, b.x FROM table_changes('t', 2) c JOIN bag b ON b.x = c.x + 5"
        " WHERE _change_type = 'insert'"
    )
    assert told.rows() == [(3, 8)]
    # A view's first rows are insertions of the epoch it was made in.
    db.execute("CREATE MATERIALIZED VIEW late AS SELECT id FROM t WHERE id > 1")
    assert changes("late", 1) == [(3, "insert", 3)]
    db.execute("SET laminar.retained_epochs = 1")
    with pytest.raises(laminar.EpochNotFound, match="the one before"):
        changes("t", 3)
