"""From statements to definitions: what goes together, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from laminar.delta.emission import Emission, Mode
from laminar.errors import LaminarError, NotSupported, NoWatermark, RelationExists
from laminar.runtime.catalog.settings import Settings
from laminar.runtime.statements.dispatch import StatementRunner, table_definition, view_definition
from laminar.sql import parse_statement
from laminar.sql.statements import CreateTable, CreateView

from ..introspection.itself import Itself
from ..parts import NO_SPARK

TIMED = "a INT, ts TIMESTAMP, WATERMARK FOR ts AS ts"


def table(text: str) -> Any:
    statement = parse_statement(f"CREATE {text}")
    assert isinstance(statement, CreateTable)
    return table_definition(statement)


def view(clauses: str, options: str = "", **settings: str) -> Any:
    statement = parse_statement(
        f"CREATE MATERIALIZED VIEW v {options} AS SELECT a FROM t {clauses}"
    )
    assert isinstance(statement, CreateView)
    return view_definition(statement, Settings(settings).text)


def test_a_table_as_it_is_written() -> None:
    found = table("TABLE t (a INT NOT NULL, b STRING, PRIMARY KEY (a))")
    assert found.columns == (("a", "int", False), ("b", "string", True))
    assert (found.primary_key, found.is_source, found.connector) == (("a",), False, None)
    assert found.sql.startswith("CREATE TABLE t")


def test_a_source_as_it_is_written() -> None:
    found = table(
        "SOURCE s (a INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS)"
        " WITH (connector = 'odd', path = 'x')"
    )
    assert (found.event_time, found.delay_us) == ("ts", 5_000_000)
    assert (found.connector, found.options) == ("odd", {"path": "x"})
    assert found.is_source


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("TABLE t (__a INT)", NotSupported, "__a"),
        ("TABLE t (a INT) WITH (path = 'x')", NotSupported, "path without a connector"),
        ("SOURCE t (a INT) WITH (path = 'x')", NotSupported, "path without a connector"),
        ("TABLE t (a INT) WITH (max_rows = 5)", NotSupported, "max_rows without a connector"),
        ("SOURCE t (a INT) WITH (idle_timeout = '1 s')", NoWatermark, '"t"'),
        (
            "SOURCE t (a INT) WITH (watermark_alignment_group = 'g')",
            NoWatermark,
            '"t"',
        ),
        (
            "SOURCE t (a INT, PRIMARY KEY (a)) WITH (retain = 'used')",
            NotSupported,
            "retain",
        ),
        ("TABLE t (a INT) WITH (connector = 'x', retain = 'used')", NotSupported, "retain"),
        ("TABLE t (a INT, PRIMARY KEY (a)) WITH (connector = 'x')", NotSupported, "PRIMARY KEY"),
        ("SOURCE t (a INT, ts DATE, WATERMARK FOR ts AS ts)", NotSupported, "watermark over a"),
    ],
)
def test_what_does_not_go_together(text: str, error: type[LaminarError], said: str) -> None:
    with pytest.raises(error, match=said):
        table(text)


@pytest.mark.parametrize(
    "text",
    [
        "SOURCE t (a INT) WITH (max_rows = 5)",
        f"SOURCE t ({TIMED}) WITH (idle_timeout = '1 s')",
        "SOURCE t (a INT) WITH (retain = 'used')",
        "SOURCE t (a INT, PRIMARY KEY (a)) WITH (connector = 'x')",
        "TABLE t (a INT) WITH (connector = 'x')",
    ],
)
def test_what_does(text: str) -> None:
    assert table(text).name == "t"


@pytest.mark.parametrize(
    ("clauses", "emission"),
    [
        ("", Emission()),
        ("EMIT CHANGES", Emission()),
        ("EMIT ON UPDATE", Emission()),
        ("EMIT ON WINDOW CLOSE", Emission(Mode.CLOSE)),
        ("EMIT AFTER WATERMARK", Emission(Mode.CLOSE)),
        ("EMIT FINAL", Emission(Mode.FINAL)),
        ("EMIT PERIODICALLY INTERVAL '2' SECONDS", Emission(Mode.PERIODIC, 2_000_000)),
        ("ALLOW LATENESS INTERVAL '1' SECOND", Emission(lateness_us=1_000_000)),
        ("EMIT FINAL LATE DATA TO l", Emission(Mode.FINAL, late_to="l")),
    ],
)
def test_when_a_view_shows_its_changes(clauses: str, emission: Emission) -> None:
    assert view(clauses).emission == emission


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("LATE DATA TO l", "LATE DATA TO alone"),
        ("EMIT PERIODICALLY INTERVAL '5' MICROSECONDS", "EMIT PERIODICALLY"),
        ("ALLOW LATENESS INTERVAL '-1' SECOND", "negative"),
    ],
)
def test_clauses_that_mean_nothing(clauses: str, said: str) -> None:
    with pytest.raises(NotSupported, match=said):
        view(clauses)


def test_options_have_the_defaults_of_the_settings() -> None:
    assert view("").refresh_policy == "auto"
    assert view("", refresh_policy="full").refresh_policy == "full"
    given = view("", "WITH (refresh_policy = incremental)", refresh_policy="full")
    assert given.refresh_policy == "incremental"
    assert given.defined_at == "line 1, column 1"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("B", RelationExists),
        ("k", RelationExists),  # a sink
        ("`a#b`", NotSupported),
        ("`a!b`", NotSupported),
        ("`a.b`", NotSupported),
        ("x__DELTA", NotSupported),
        ("laminar_system", NotSupported),
    ],
)
def test_names_that_cannot_be_given(tmp_path: Any, name: str, error: type[LaminarError]) -> None:
    itself: Any = Itself(tmp_path)
    runner = StatementRunner(itself, NO_SPARK_DML, NO_SPARK, NO_SPARK, NO_SPARK, NO_SPARK)
    with pytest.raises(error):
        runner.run(parse_statement(f"CREATE TABLE {name} (a INT)"))
    if error is RelationExists:  # then it need not be created
        assert runner.run(parse_statement(f"CREATE TABLE IF NOT EXISTS {name} (a INT)")) is None
    itself.ledger.close()


class _Dml:
    """Is asked for nothing."""

    merge = None


NO_SPARK_DML: Any = _Dml()
