"""A secret is used, and nothing that a database keeps, shows or says holds it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import laminar
from laminar.connectors import Options, SinkSpec, SourceSpec
from laminar.runtime.catalog.source_options import parse
from laminar.runtime.introspection.status import read_status

from .numbers_source import NumbersSource

HUSH = "hunter2hunter2"


class Failing:
    """A sink that tells its password when it fails."""

    def __init__(self, password: str) -> None:
        self.password = password

    def write(self, epoch: int, _delta: Any) -> None:
        if epoch:  # not at its creation
            raise ValueError(f"login failed: {self.password}")


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make connectors known that say which password they were given."""
    seen: list[str] = []

    def source(spec: SourceSpec) -> Any:
        options = Options.of("vault", spec.options)
        seen.append(options.required("password"))
        return NumbersSource(9, 3)

    def sink(spec: SinkSpec) -> Any:
        options = Options.of("vault", spec.options)
        seen.append(options.required("password"))
        return Failing(options["password"])

    laminar.register_source("vault", source)
    laminar.register_sink("vault", sink)
    monkeypatch.setenv("VAULT_PASSWORD", HUSH)
    return seen


SCRIPT = """
    CREATE SOURCE s (n BIGINT, k BIGINT, note STRING, ts TIMESTAMP)
        WITH (connector = 'vault', password = '${env:VAULT_PASSWORD}');
    CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM s;
    CREATE SINK k FROM v WITH (connector = 'vault', password = '${env:VAULT_PASSWORD}');
"""


def everything_said(db: Any) -> str:
    asked = (
        *("SHOW CREATE s", "SHOW CREATE k", "DESCRIBE s", "SHOW SOURCES", "SHOW SINKS"),
        *("EXPLAIN DAG", "SELECT * FROM laminar_system.sources"),
        *("SELECT * FROM laminar_system.sinks", "SELECT * FROM laminar_system.settings"),
    )
    return "".join(str(db.execute(each).rows()) for each in asked)


def test_a_reference_is_resolved_where_it_is_used_and_nowhere_else(
    spark: SparkSession, tmp_path: Path, used: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    said = []
    with caplog.at_level(logging.DEBUG, "laminar"), laminar.connect(tmp_path, spark=spark) as db:
        db.execute(SCRIPT)
        try:
            db.drain()
        except laminar.LaminarError as error:  # of the sink, if it is told here
            said.append(str(error))
        said += [everything_said(db), str(db.metrics())]
        db.checkpoint()
    assert used[:2] == [HUSH, HUSH]
    status = read_status(tmp_path)
    said += [json.dumps(status.as_json(), default=str), *caplog.messages]
    assert HUSH not in "".join(said)
    for path in (each for each in tmp_path.rglob("*") if each.is_file()):
        assert HUSH.encode() not in path.read_bytes(), path


def test_a_variable_that_is_missing_is_named(
    spark: SparkSession, tmp_path: Path, used: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VAULT_PASSWORD")
    with laminar.connect(tmp_path, spark=spark) as db:
        with pytest.raises(laminar.ReferenceNotFound, match="VAULT_PASSWORD"):
            db.execute(SCRIPT)
        assert db.execute("SHOW SOURCES").rows() == []
    assert used == []


def test_options_of_the_way_in_refer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOST", "7")
    assert parse({"max_rows": "${env:MOST}"}, pushed=True).policy.max_rows == 7


def test_values_of_rows_are_in_no_status(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE TABLE t (v STRING)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT CAST(v AS INT) AS n FROM t")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT SUM(n) AS n FROM v")
        db.insert("t", [("alice",)])
        with pytest.raises(laminar.OperatorError, match="alice"):
            db.step()
        seen = db.sql("SELECT state_reason FROM laminar_system.materialized_views").rows()
        assert "alice" in str(seen)  # whoever may ask for rows may know
    status = read_status(tmp_path)
    assert "CAST_INVALID_INPUT" in str(status)
    assert "alice" not in str(status)
