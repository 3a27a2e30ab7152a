"""Every keyword of Spark as a name, wherever Spark takes it as one."""

# ruff: noqa: E501 - a template is one line
# fmt: off

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from laminar.plan.parse import parse_query
from laminar.sql import relations_of
from laminar.sql.keywords import keywords
from laminar.sql.reserved_words import quoted_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEMPLATES = {
    "column": ("SELECT {w} FROM q", ("{w}",)),
    "qualified": ("SELECT q.{w} FROM q", ("{w}",)),
    "as_table": ("SELECT {w}.x FROM q AS {w}", ("x",)),
    "table": ("SELECT x FROM q {w}", ("x",)),
    "as": ("SELECT x AS {w} FROM q", ("{w}",)),
    "alias": ("SELECT x {w} FROM q", ("{w}",)),
    "alias_list": ("SELECT x {w}, s AS y FROM q", ("{w}", "y")),
    "relation": ("SELECT x FROM {w}", ("x",)),
    "relation_col": ("SELECT {w}.x FROM {w}", ("x",)),
    "where": ("SELECT x FROM q WHERE {w} = 1", ("x",)),
    "where_and": ("SELECT x FROM q WHERE x > 0 AND {w} > 1 AND x < 9", ("x",)),
    "group": ("SELECT {w}, COUNT(*) AS n FROM q GROUP BY {w}", ("{w}", "n")),
    "order": ("SELECT x FROM q ORDER BY {w} DESC LIMIT 1", ("x",)),
    "field": ("SELECT s.{w} AS y FROM q", ("y",)),
    "cte": ("WITH {w} AS (SELECT 1 AS x) SELECT x FROM {w}", ("x",)),
    "plus": ("SELECT {w} + 1 AS y FROM q", ("y",)),
    "plus2": ("SELECT 1 + {w} AS y FROM q", ("y",)),
    "call": ("SELECT abs({w}) AS y FROM q", ("y",)),
    "using": ("SELECT q.x FROM q JOIN q AS r USING ({w})", ("x",)),
    "on": ("SELECT q.x FROM q JOIN q AS r ON q.{w} = r.{w}", ("x",)),
    "list": ("SELECT x, {w} FROM q", ("x", "{w}")),
    "list2": ("SELECT {w}, x FROM q", ("{w}", "x")),
    "case": ("SELECT CASE WHEN {w} > 0 THEN {w} ELSE 0 END AS y FROM q", ("y",)),
    "comma": ("SELECT q.x FROM q, {w}", ("x",)),
    "lambda": ("SELECT transform(array(1), {w} -> {w} + 1) AS y FROM q", ("y",)),
    "distinct": ("SELECT DISTINCT {w} FROM q", ("{w}",)),
    "in": ("SELECT x FROM q WHERE x IN ({w}, 2)", ("x",)),
    "join": ("SELECT q.x FROM q JOIN {w} ON true", ("x",)),
    "subquery": ("SELECT {w}.x FROM (SELECT x FROM q) AS {w}", ("x",)),
    "columns": ("SELECT {w} FROM (SELECT x FROM q) AS r ({w})", ("{w}",)),
    "struct": ("SELECT struct(x AS {w}).{w} AS y FROM q", ("y",)),
    "as_as": ("SELECT {w} AS {w} FROM q", ("{w}",)),
    "as_where": ("SELECT x FROM q AS {w} WHERE {w}.x > 0", ("x",)),
    "max": ("SELECT x, max({w}) AS y FROM q GROUP BY x HAVING max({w}) > 0", ("x", "y")),
    "over": ("SELECT SUM(x) OVER (PARTITION BY {w} ORDER BY {w}) AS y FROM q", ("y",)),
}
"""A query in which a word is a name, and the names of its columns."""

FILE = Path(__file__).parent / "fixtures" / "spark_keywords.txt"

REFUSED = {
    word: frozenset(where)
    for word, *where in map(str.split, FILE.read_text(encoding="utf-8").splitlines())
    if word != "#"
}

READ_AS_VALUES = keywords("true false null current_date current_timestamp current_user session_user")
"""Spark reads them as values where one may stand, and nothing differs but their names."""

NOT_READ = {"all": keywords("group order plus over"), "distinct": keywords("plus lambda columns"), "case": keywords("plus lambda"), "interval": keywords("plus lambda"), "from": keywords("case")}
"""Places where a name without backquotes is taken for the keyword; Spark is not even sure itself."""

RELATIONS = {"relation": "{w}", "relation_col": "{w}", "cte": "", "comma": "q {w}", "join": "q {w}"}


def wrong(word: str) -> dict[str, str]:
    """Return the places where a word is not read as the name that it is, and what is wrong."""
    found = {}
    for place, (template, columns) in TEMPLATES.items():
        if place in REFUSED.get(word, ()) or place in NOT_READ.get(word, ()):
            continue
        query = template.format(w=word)
        try:
            problem = _problem(query, place, columns, word, template.count("{w}"))
        except Exception as error:  # tell of all places, not of the first one
            problem = str(error)
        if problem:
            found[place] = f"{query}: {problem}"
    return found


def _problem(query: str, place: str, columns: tuple[str, ...], word: str, times: int) -> str:
    read = {each.lower() for each in relations_of(query)}
    if read != set(RELATIONS.get(place, "q").format(w=word).split()):
        return f"reads {read}"
    tree = parse_query(query)
    assert isinstance(tree, exp.Query)
    names = [each.lower() for each in tree.named_selects]
    if word not in READ_AS_VALUES and names != [each.format(w=word) for each in columns]:
        return f"gives {names}"
    seen = sum(each.name.lower() == word for each in tree.find_all(exp.Identifier))
    return "" if seen >= times or word in READ_AS_VALUES else f"sees {seen} of {times}"


def reserved() -> list[str]:
    """Return the keywords that the parser below reserves somewhere."""
    return [word for word in REFUSED if quoted_names(f"SELECT q.{word} FROM q") != f"SELECT q.{word} FROM q"]


@pytest.mark.parametrize("word", reserved())
def test_a_keyword_is_a_name_wherever_spark_takes_it_as_one(word: str) -> None:
    assert wrong(word) == {}


@pytest.mark.long
def test_so_is_every_other_word_that_either_parser_knows() -> None:
    known = {each.lower() for each in Spark.Tokenizer.KEYWORDS if each.isidentifier()}
    assert {word: wrong(word) for word in {*REFUSED, *known} if wrong(word)} == {}


@pytest.mark.spark
@pytest.mark.long
def test_the_list_of_keywords_is_sparks(spark: SparkSession) -> None:
    listed = {row[0].lower() for row in spark.sql("SELECT * FROM sql_keywords()").collect()}
    assert listed <= set(REFUSED)


def test_the_function_like_is_no_operator_after_select() -> None:
    query = "SELECT * FROM (SELECT like(a, b) FROM t) AS q(r)"
    assert quoted_names(query) == query
    assert quoted_names("SELECT (select LIKE 'x') FROM t") == "SELECT (`select` LIKE 'x') FROM t"
