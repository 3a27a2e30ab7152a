"""What only its owner should know is not shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from laminar.errors import BadOption, SqlSyntaxError
from laminar.runtime.catalog.redaction import shown_options, shown_sql
from laminar.runtime.introspection.system import TABLES
from laminar.runtime.output.sinks import SinkDefinition
from laminar.runtime.statements.show import Showing
from laminar.sql import parse_statement

from ..parts import catalog, snapshot


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("WITH (password = 'a''b', path = 'x')", "WITH (password = '***', path = 'x')"),
        ("WITH (sasl.PASSWORD='x')", "WITH (sasl.PASSWORD='***')"),
        ("WITH ('sasl.jaas.token' = \"x\")", "WITH ('sasl.jaas.token' = '***')"),
        ("WITH (`api-key` = 5 -- mine\n)", "WITH (`api-key` = '***' -- mine\n)"),
        ("WITH (token.path = 'x')", "WITH (token.path = '***')"),
        ("WITH (path = 'password')", "WITH (path = 'password')"),
        ("WITH (path = 'never ends", "***"),
        ("", ""),
    ],
)
def test_texts_hide_the_values_of_secret_options(sql: str, shown: str) -> None:
    assert shown_sql(sql) == shown


def test_pairs_hide_them_too() -> None:
    options = {"path": "x", "secret_id": "s", "access.key": "k"}
    assert shown_options(options) == [("access.key", "***"), ("path", "x"), ("secret_id", "***")]


SOURCE = "CREATE SOURCE s (x INT, token STRING) WITH (connector = 'mine', password = 'hush')"
SINK = "CREATE SINK k FROM s WITH (connector = 'mine', api_key = 'hush')"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT x FROM s WHERE token = 'x'"


def engine() -> Any:
    """An engine that has a source, a view and a sink, and nothing else."""
    sinks = SimpleNamespace(sinks=lambda: [SinkDefinition("k", "s", "mine", sql=SINK)])
    seen = snapshot(catalog(f"{SOURCE}; {VIEW}"))
    work = SimpleNamespace(inlets=SimpleNamespace(health=dict))
    return SimpleNamespace(
        snapshot=lambda: seen,
        outputs=SimpleNamespace(sinks=sinks),
        work=work,
        env=SimpleNamespace(read_only=False),
    )


def test_a_database_tells_its_definitions_without_them() -> None:
    one = engine()
    (row,) = TABLES["sources"].rows(one, one.snapshot())
    assert row[8] == SOURCE.replace("hush", "***")
    showing = Showing(one, SimpleNamespace(), lambda _, rows: rows[0][0])  # type: ignore[arg-type]

    def shown(name: str) -> Any:
        return showing.show(parse_statement(f"SHOW CREATE {name}"))  # type: ignore[arg-type]

    assert shown("s") == SOURCE.replace("hush", "***")
    assert shown("k") == SINK.replace("hush", "***")
    assert shown("v") == VIEW
    assert one.snapshot().catalog.definitions["s"].sql == SOURCE


def test_errors_point_into_a_text_without_them() -> None:
    text = "SELECT token = 'x';\nCREATE SOURCE s (x INT) WITH (sasl.password = 'hu''sh' oops)"
    told = SqlSyntaxError("no").at(text, text.index("oops"), 4)
    assert "hu" not in told.detail
    line, marks = told.detail.splitlines()[-2:]
    assert line[marks.index("^") :] == "oops)"
    assert marks.count("^") == 4
    broken = "CREATE SINK k FROM s WITH (path = 'a;b',\n  api_key = \"hush\" oops"
    assert "hush" not in str(SqlSyntaxError("no").at(broken, broken.index("oops")))
    assert "'hush" not in str(SqlSyntaxError("no").at("WITH (token = 'hush", 0))
    assert "token = 'x'" in str(SqlSyntaxError("no").at(text, 0))
    assert "hush" not in str(BadOption("mine", "password", "hush", "more"))
