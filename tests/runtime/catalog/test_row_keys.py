"""Columns that tell the rows of a relation apart."""

from __future__ import annotations

import pytest

from laminar.runtime.catalog.row_keys import row_key

from ..parts import catalog

TABLES = """
CREATE TABLE t (k INT, g INT, x INT, PRIMARY KEY (k));
CREATE TABLE two (k INT, g INT, x INT, PRIMARY KEY (k, g));
CREATE SOURCE s (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
"""

HOURS = "TUMBLE(ts, INTERVAL '1' HOUR)"


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT k, x FROM t", ("k",)),
        ("SELECT x, k AS id FROM t WHERE x > 1", ("id",)),
        ("SELECT x FROM t", None),
        ("SELECT k + 1 AS k FROM t", None),
        ("SELECT g, k FROM two", ("k", "g")),
        ("SELECT k FROM two", None),
        ("SELECT k FROM s", None),
        ("SELECT t.k FROM t JOIN s ON t.k = s.k", None),
        ("SELECT g, SUM(x) AS n FROM t GROUP BY g", ("g",)),
        ("SELECT SUM(x) AS n FROM t", ()),
        ("SELECT SUM(x) AS n FROM t GROUP BY g", None),
        ("SELECT g, COUNT(DISTINCT x) AS n FROM t GROUP BY g", ("g",)),
        ("SELECT DISTINCT g, x FROM t", ("g", "x")),
        (f"SELECT {HOURS}.end AS e, COUNT(*) AS n FROM s GROUP BY {HOURS} EMIT FINAL", None),
        ("SELECT k, x FROM t EMIT PERIODICALLY INTERVAL '1' SECOND", ("k",)),
        ("SELECT k, x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x) AS n FROM t", None),
        ("SELECT k FROM t UNION ALL SELECT k FROM two", None),
    ],
)
def test_the_key_of_a_view(query: str, key: tuple[str, ...] | None) -> None:
    found = catalog(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query}")
    assert row_key("v", found.relations.by_name, found.primary_keys()) == key


@pytest.mark.parametrize(("table", "key"), [("t", ("k",)), ("two", ("k", "g")), ("s", None)])
def test_the_key_of_a_table(table: str, key: tuple[str, ...] | None) -> None:
    found = catalog(TABLES)
    assert row_key(table, found.relations.by_name, found.primary_keys()) == key


def test_a_key_goes_through_views() -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT k AS id, x FROM t;"
        "CREATE MATERIALIZED VIEW w AS SELECT id, x FROM v WHERE x > 1"
    )
    assert row_key("w", found.relations.by_name, found.primary_keys()) == ("id",)


def test_sessions_are_told_apart_by_their_window() -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM s"
        " GROUP BY k, SESSION(ts, INTERVAL '5' SECOND)"
    )
    relations = found.relations.by_name
    hidden = row_key("v#1", relations, {})
    assert hidden == relations["v#1"].shape.columns[:2]
    assert row_key("v", relations, {}) is None
