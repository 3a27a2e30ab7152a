"""A secret is used, and nothing that a database keeps, shows or says holds it."""

from __future__ import annotations

import json
import logging
import traceback
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


def test_what_is_behind_an_error_does_not_hold_it_either(
    spark: SparkSession, tmp_path: Path, used: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn(Exception):
        def __init__(self, password: str) -> None:
            super().__init__()
            self.held = (password,)

        def __str__(self) -> str:
            return f"login failed: {self.held}"

    class Telling(NumbersSource):
        def latest_offset(self, _start: Any) -> Any:
            try:
                raise Stubborn(HUSH)
            except Stubborn as error:
                error.add_note(f"tried with {HUSH}")
                raise PermissionError(13, f"no entry with {HUSH}", HUSH) from error

    def source(spec: SourceSpec) -> Any:
        Options.of("vault", spec.options).required("password")
        return Telling(9, 3)

    laminar.register_source("vault", source)
    with caplog.at_level(logging.DEBUG), laminar.connect(tmp_path, spark=spark) as db:
        db.execute(SCRIPT)
        with pytest.raises(laminar.SourceReadFailed) as found:
            db.drain()
        assert isinstance(found.value.__cause__, PermissionError)
    shown = "".join(traceback.format_exception(found.value))
    assert "${env:VAULT_PASSWORD}" in shown
    assert "login failed" in shown
    assert HUSH not in shown
    assert HUSH not in caplog.text
    assert used


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


def test_what_connectors_say_of_rows_is_in_no_status(
    spark: SparkSession, tmp_path: Path, used: list[str]
) -> None:
    class Choosy(NumbersSource):
        def latest_offset(self, _start: Any) -> Any:
            raise ValueError("cannot read 'alice'")

    laminar.register_source("vault", lambda _spec: Choosy(9, 3))
    laminar.register_sink("vault", lambda _spec: Failing("of 'bob'"))
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE TABLE t (n INT); CREATE SINK k FROM t WITH (connector = 'vault')")
        db.insert("t", [(1,)])
        db.drain()
        assert "bob" in str(db.sql("SELECT reason FROM laminar_system.sinks").rows())
        db.execute("CREATE SOURCE s (n BIGINT) WITH (connector = 'vault')")
        with pytest.raises(laminar.SourceReadFailed, match="alice"):
            db.step()
        assert "alice" in str(db.sql("SELECT reason FROM laminar_system.sources").rows())
        status = read_status(tmp_path)
    reasons = {each.name: each.state_reason for each in status.relations}
    reasons |= {each.name: each.state_reason for each in status.sinks}
    assert reasons["s"] == "ValueError; laminar_system.sources says more"
    assert reasons["k"] == "it failed; laminar_system.sinks says more"
    assert not used
