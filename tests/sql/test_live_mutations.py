"""Spoilt statements on a live database: refused by an error of ours, and nothing half applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

import laminar
from laminar.runtime.statements.create_drop import drop
from laminar.sql import parse_script
from laminar.sql.tokens import tokenize

from .mutations import mutated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETUP = """
CREATE TABLE IF NOT EXISTS orders (id BIGINT, region STRING, amount DECIMAL(10, 2), ts TIMESTAMP);
CREATE TABLE IF NOT EXISTS regions (region STRING NOT NULL, name STRING);
CREATE MATERIALIZED VIEW IF NOT EXISTS totals AS
    SELECT region, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY region;
CREATE MATERIALIZED VIEW IF NOT EXISTS named AS
    SELECT r.name, t.total FROM totals t JOIN regions r ON t.region = r.region;
"""

SEEDS = [
    "CREATE TABLE other (a BIGINT NOT NULL, `b c` ARRAY<STRING>, d STRUCT<x: INT, y: DOUBLE>)",
    "CREATE SOURCE s (n BIGINT, ts TIMESTAMP) WITH (connector = 'datagen', rows_total = '10')",
    "CREATE MATERIALIZED VIEW v AS SELECT region, amount * 2 AS twice FROM orders WHERE id > 3",
    "CREATE MATERIALIZED VIEW w WITH (refresh_policy = 'incremental') AS\n"
    "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS w, MAX(amount) AS m\n"
    "FROM orders GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE) EMIT ON UPDATE",
    "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT DISTINCT region FROM orders",
    "INSERT INTO regions (region, name) VALUES ('n', 'north'), ('s', NULL)",
    "INSERT INTO regions SELECT region, UPPER(region) FROM totals WHERE region IS NOT NULL",
    "UPDATE regions SET name = CONCAT(name, '!') WHERE region = 'n' AND name LIKE '%o%'",
    "DELETE FROM regions WHERE region IN (SELECT region FROM totals WHERE n > 5)",
    "SELECT t.region, r.name, CAST(total AS STRING) FROM totals t LEFT JOIN regions r\n"
    "USING (region) WHERE total > 1 ORDER BY 1 DESC LIMIT 5",
    "WITH big AS (SELECT * FROM orders WHERE amount > 10)\nSELECT COUNT(*) FROM big AS OF EPOCH 0",
    "DROP MATERIALIZED VIEW IF EXISTS named CASCADE",
    "DROP TABLE regions",
    "PAUSE MATERIALIZED VIEW named",
    "DESCRIBE totals",
    "SHOW MATERIALIZED VIEWS",
]
WORDS = sorted({token.text for text in SEEDS for token in tokenize(text)})


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[laminar.Database]:
    with laminar.connect(tmp_path_factory.mktemp("fuzz"), spark=spark) as opened:
        opened.execute(SETUP)
        yield opened


def all_of(db: laminar.Database) -> dict[str, Any]:
    """Everything that a statement may change."""
    catalog, manifest = db.engine.defined.catalog, db.engine.ledger.manifest
    return {
        "definitions": dict(catalog.definitions),
        "programs": list(catalog.programs),
        "dag": [node.name for node in catalog.dag.nodes.values()],
        "sources": sorted(db.engine.defined.sources),
        "version": (manifest.epoch, manifest.revision),
        "paused": db.engine.scheduler.paused,
        "pending": {
            name: len(db.engine.ledger.pending.after(name, 0)) for name in ("orders", "regions")
        },
    }


def set_right(db: laminar.Database) -> None:
    """Undo what a statement that ran has done to the definitions."""
    for name in [*db.engine.defined.catalog.definitions]:
        known = name in ("orders", "regions", "totals", "named")
        if not known and db.engine.defined.catalog.exists(name):
            drop(db.engine, name, cascade=True)
    db.execute(SETUP)


@pytest.mark.spark
@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(text=mutated(SEEDS, WORDS, tokens_only=True))
def test_a_mutated_statement_runs_or_changes_nothing(db: laminar.Database, text: str) -> None:
    before = all_of(db)
    error = refusal(db, text)
    if error is None:
        set_right(db)
        return
    assert all_of(db) == before
    for noise in ("\tat ", "Py4J", "org.apache"):
        assert noise not in error


def refusal(db: laminar.Database, text: str) -> str | None:
    """Run a text; return the error of ours that refused it."""
    try:
        if len(parse_script(text)) != 1:
            return ""  # the statements before one that fails have been applied
        result = db.execute(text)
        if isinstance(result, laminar.Result):
            result.rows()
    except laminar.LaminarError as error:
        return str(error)
    return None
