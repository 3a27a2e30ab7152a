"""SHOW, DESCRIBE and EXPLAIN over parts without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laminar.errors import UnknownRelation
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition, ViewDefinition
from laminar.runtime.catalog.python_objects import applied
from laminar.runtime.statements.show import Showing, find_sink
from laminar.sql import parse_statement
from laminar.sql.statements import CreateView, Describe, Explain, Show

from ..introspection.itself import Itself
from ..parts import NO_SPARK


class Asked:
    """Answers statements with the rows of their listings."""

    def __init__(self, itself: Any) -> None:
        self.itself = itself
        self._showing = Showing(itself, NO_SPARK, lambda head, rows: [tuple(head), *rows])

    def __call__(self, text: str) -> list[tuple[str, ...]]:
        """Return the rows below the heading."""
        statement = parse_statement(text)
        if isinstance(statement, Describe):
            found = self._showing.describe(statement)
        elif isinstance(statement, Explain):
            match statement.target:
                case str(name):
                    found = self._showing.explain_view(name)
                case CreateView(name=name, query=query):
                    found = self._showing.explain_new(ViewDefinition(name, query))
                case _:
                    found = self._showing.explain_dag()
        else:
            assert isinstance(statement, Show)
            found = self._showing.show(statement)
        assert all(len(row) == len(found[0]) for row in found)
        return list(found[1:])


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Asked]:
    itself = Itself(tmp_path)
    yield Asked(itself)
    itself.ledger.close()


def test_what_there_is(ask: Asked) -> None:
    assert [row[0] for row in ask("SHOW MATERIALIZED VIEWS")] == [*"bcdef", "w", "missed"]
    assert [row[0] for row in ask("SHOW TABLES")] == ["names"]
    assert [row[0] for row in ask("SHOW SOURCES")] == ["t"]
    assert [row[:2] for row in ask("SHOW SINKS")] == [("k", "d")]
    assert len(ask("SHOW CHECKPOINTS")) == 3


def test_what_a_relation_is_made_from(ask: Asked) -> None:
    assert ask("SHOW DEPENDENCIES FOR b") == [("b -> t",)]
    assert ask("SHOW DEPENDENCIES FOR K")[:2] == [("k",), ("└─ d",)]
    with pytest.raises(UnknownRelation):
        ask("SHOW DEPENDENCIES FOR nobody")


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("B", "CREATE MATERIALIZED VIEW b AS SELECT k, x FROM t WHERE x > 0"),
        ("names", "CREATE TABLE names (k INT NOT NULL, name STRING, PRIMARY KEY (k))"),
        ("missed", "-- missed: rows that are late for w"),
        ("o", "-- o: a Python operator over t"),
        ("plain", "CREATE TABLE `plain` (`a` INT NOT NULL, `b` STRING)"),
        ("fed", "CREATE SOURCE `fed` (`a` INT)"),
        ("made", "CREATE MATERIALIZED VIEW `made` WITH (schedule = '1h') AS SELECT a FROM plain"),
    ],
)
def test_the_statement_that_defines_a_relation(ask: Asked, name: str, statement: str) -> None:
    catalog = ask.itself.defined.catalog
    columns = (("a", "INT", False), ("b", "STRING", True))
    catalog.add_table(TableDefinition("plain", columns))
    catalog.add_table(TableDefinition("fed", (("a", "INT", True),), is_source=True))
    made = ViewDefinition("made", "SELECT a FROM plain", schedule="1h")
    catalog.add_view(made, catalog.compile(made))
    operator = OperatorDefinition("o", ("t",), (("a", "int"),))
    catalog.add_view(operator, type(catalog.programs["b"])("o", (applied(operator, len),)))
    ((found,),) = ask(f"SHOW CREATE {name}")
    assert found == statement


def test_columns(ask: Asked) -> None:
    assert ask("DESCRIBE names") == [
        ("k", "int", "no", "primary", "", ""),
        ("name", "string", "yes", "", "", ""),
    ]
    assert ask("DESCRIBE B") == [
        ("k", "int", "yes", "", "", ""),
        ("x", "int", "yes", "", "", ""),
    ]
    assert ask("DESCRIBE laminar_system.metrics")[0] == ("name", "string", "yes", "", "", "")
    with pytest.raises(UnknownRelation, match=r"laminar_system\.metric"):
        ask("DESCRIBE laminar_system.metric")


def test_when_a_view_steps_and_with_whom(ask: Asked) -> None:
    lines = [line for (line,) in ask("EXPLAIN MATERIALIZED VIEW c")]
    assert lines[:6] == [
        "view: c",
        "strategy: incremental",
        "reads: t",
        "schedule: every epoch",
        "group: 1 [b, c, d] meets in d: atomic, fastest, epoch 1",
        "state: failing, at epoch 1 (1 / 0)",
    ]
    alone = [line for (line,) in ask("EXPLAIN MATERIALIZED VIEW f")]
    assert alone[4:6] == ["group: none", "state: running, at epoch 2"]


def test_a_view_that_is_not_there_yet(ask: Asked) -> None:
    (first, *_) = ask("EXPLAIN CREATE MATERIALIZED VIEW new AS SELECT k FROM names")
    assert first == ("view: new",)
    assert not ask.itself.defined.catalog.exists("new")


def test_the_dag_with_what_sources_keep(ask: Asked) -> None:
    used = {"retain": "used"}
    table = TableDefinition("r", (("a", "INT", True), ("b", "INT", True)), True, options=used)
    ask.itself.defined.catalog.add_table(table)
    ask.itself.work.pruning.follow()
    lines = [line for (line,) in ask("EXPLAIN DAG")]
    assert "Sinks: k <- d" in lines
    prefixes = [line for line in lines if line.startswith("Prefix of r")]
    assert prefixes == [
        "Prefix of r: keeps nothing, for no view reads it"
        " (columns pruned: 0, rows in: 0, rows surviving: 0)"
    ]


def test_names_of_sinks_ignore_case(ask: Asked) -> None:
    assert find_sink(ask.itself, "K") == "k"
    assert find_sink(ask.itself, "d") is None
