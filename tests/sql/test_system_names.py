"""System relations in a query get names of one part that nothing else in it has."""

from __future__ import annotations

import pytest

from laminar.sql import Query, parse_statement
from laminar.sql.equality import same_query
from laminar.sql.rewrite_options import with_options
from laminar.sql.system import name_system_tables, system_table
from laminar.sql.time_travel import Past


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM laminar_system.epochs", "SELECT * FROM `epochs`"),
        ("SELECT * FROM `Laminar_System`.Epochs e", "SELECT * FROM `epochs` e"),
        (
            "SELECT epochs.epoch, laminar_system.epochs.rows_in FROM laminar_system.epochs",
            "SELECT epochs.epoch, `epochs`.rows_in FROM `epochs`",
        ),
        (
            "SELECT * FROM epochs JOIN laminar_system.epochs ON true",
            "SELECT * FROM epochs JOIN `laminar_system.epochs` ON true",
        ),
        (
            "WITH epochs AS (SELECT 1) SELECT * FROM laminar_system.epochs, epochs",
            "WITH epochs AS (SELECT 1) SELECT * FROM `laminar_system.epochs`, epochs",
        ),
        ("SELECT 'laminar_system.epochs' FROM t", "SELECT 'laminar_system.epochs' FROM t"),
    ],
)
def test_naming(query: str, expected: str) -> None:
    text, names = name_system_tables(query, ["epochs"])
    assert text == expected
    assert names["epochs"] in ("epochs", "laminar_system.epochs")


def test_what_is_of_the_system() -> None:
    assert system_table("LAMINAR_SYSTEM.Epochs") == "epochs"
    assert system_table("epochs") is None
    assert system_table("other.epochs") is None


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("SELECT a FROM t", "select a\n  FROM t -- yes", True),
        ("SELECT a FROM t", "SELECT A FROM t", False),
        ("SELECT 'a' FROM t", "SELECT 'A' FROM t", False),
        ("SELECT a FROM t", "SELECT a FROM t WHERE true", False),
        ("SELECT `from` FROM t", "SELECT from FROM t", False),
    ],
)
def test_same_query(left: str, right: str, *, same: bool) -> None:
    assert same_query(left, right) is same


def test_options_are_put_into_the_text() -> None:
    plain = "CREATE OR REPLACE MATERIALIZED VIEW `a b` AS SELECT 1 AS with EMIT CHANGES"
    altered = with_options(plain, {"refresh_policy": "full"})
    assert altered == (
        "CREATE OR REPLACE MATERIALIZED VIEW `a b` WITH (refresh_policy = 'full')"
        " AS SELECT 1 AS with EMIT CHANGES"
    )
    again = with_options(altered, {"refresh_policy": "auto", "schedule": "it's"})
    assert "WITH (refresh_policy = 'auto', schedule = 'it\\'s') AS" in again


def test_each_relation_may_have_an_epoch_of_its_own() -> None:
    one = parse_statement("SELECT * FROM a AS OF EPOCH 3, b AS OF EPOCH 3")
    assert isinstance(one, Query)
    assert " ".join(one.text.split()) == "SELECT * FROM a , b"
    assert (one.as_of_epoch, one.pasts) == (3, ())
    two = parse_statement("SELECT a.x FROM a AS OF EPOCH 3 JOIN `b c` AS OF EPOCH 4 y ON true")
    assert isinstance(two, Query)
    assert two.text == (
        "SELECT a.x FROM `a as of epoch 3` AS `a` JOIN `b c as of epoch 4` y ON true"
    )
    assert two.as_of_epoch is None
    assert two.pasts == (Past("a as of epoch 3", "a", 3), Past("b c as of epoch 4", "b c", 4))
