"""Where in a script an error belongs."""

from __future__ import annotations

import pytest

from laminar.errors import (
    BadOption,
    LaminarError,
    NonDeterministic,
    NotSupported,
    SqlSyntaxError,
    UnknownConnector,
    UnknownOption,
    UnknownRelation,
)
from laminar.sql import parse_script
from laminar.sql.error_places import placed

SCRIPT = """CREATE TABLE t (a INT);
  CREATE MATERIALIZED VIEW v AS
  SELECT a, rand() AS r FROM t;
CREATE SOURCE s (a INT) WITH (connector = 'odd', max_rows = 'many', path = 'x');
SELECT a, nobody FROM nobody;
DROP TABLE `a b`;
EXPLAIN CREATE MATERIALIZED VIEW w AS SELECT b FROM t;
SELECT * FROM laminar_system.nothing;
INSERT INTO t SELECT x FROM u;
SELECT a FROM t, u;
SELECT a, v FROM t, v;
"""
STATEMENTS = parse_script(SCRIPT)
RANDOM = NonDeterministic("rand", "v")


def pointing(error: LaminarError, query: str, word: str) -> LaminarError:
    return error.at(query, query.index(word), len(word))


@pytest.mark.parametrize(
    ("number", "error", "place", "marked"),
    [
        # One that points into the query is moved to where that stands.
        (1, pointing(RANDOM, "SELECT a, rand() AS r FROM t", "rand"), (3, 13), "rand"),
        (5, pointing(NotSupported("b", "c"), "SELECT b FROM t", "b"), (7, 46), "b"),
        (7, pointing(NotSupported("x", "c"), "SELECT x FROM u", "x"), (9, 22), "x"),
        # One that points nowhere is put at the first word it is about.
        (2, UnknownConnector("odd", ()), (4, 43), "'odd'"),
        (2, BadOption("odd", "max_rows", "many", "a number"), (4, 61), "'many'"),
        (2, UnknownOption("odd", "PATH", ()), (4, 69), "path"),
        # A column may be called the same, and stand before.
        (3, UnknownRelation("nobody"), (5, 23), "nobody"),
        (8, UnknownRelation("u"), (10, 18), "u"),
        (9, UnknownRelation("v"), (11, 21), "v"),
        (4, UnknownRelation("a b"), (6, 12), "`a b`"),
        (5, UnknownRelation("T"), (7, 53), "t"),
        (6, UnknownRelation("laminar_system.nothing"), (8, 15), "laminar_system.nothing"),
        (0, NotSupported('the name "t"', "choose another"), (1, 14), "t"),
        # Or else where the statement starts.
        (0, SqlSyntaxError("something"), (1, 1), "CREATE"),
    ],
)  # fmt: skip
def test_errors_say_where_in_the_script_they_belong(
    number: int, error: LaminarError, place: tuple[int, int], marked: str
) -> None:
    found = placed(error, STATEMENTS[number])
    assert found is error
    assert found.place == place
    line, marks = found.detail.splitlines()[-2:]
    start = marks.index("^")
    assert line[start : start + marks.count("^")] == marked
