"""Columns of every type of Spark: declared, filled, deleted from, and used as keys of all kinds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from view_trials import FAILS, outcome

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINT = "X'0101000000000000000000F03F0000000000000040'"

TYPES = {
    "TINYINT": "CAST({n} AS TINYINT)",
    "SMALLINT": "CAST({n} AS SMALLINT)",
    "INT": "{n}",
    "BIGINT": "9223372036854775800L + {n}",
    "FLOAT": "CAST('NaN' AS FLOAT) + {n}",
    "DOUBLE": "CAST({n} AS DOUBLE) * -0.0D",
    "DECIMAL(10,2)": "CAST({n} AS DECIMAL(10,2))",
    "DECIMAL(38,0)": "CAST('9999999999999999999999999999999999999' AS DECIMAL(38,0)) + {n}",
    "DECIMAL(38,38)": "CAST(0.{n} AS DECIMAL(38,38))",
    "STRING": "'a{n}'",
    "STRING COLLATE UTF8_LCASE": "'A{n}' COLLATE UTF8_LCASE",
    "STRING COLLATE UNICODE_CI": "'Ä{n}' COLLATE UNICODE_CI",
    "VARCHAR(5)": "CAST('a{n}' AS VARCHAR(5))",
    "CHAR(5)": "CAST('a{n}' AS CHAR(5))",
    "BINARY": "X'0{n}'",
    "BOOLEAN": "{n} = 1",
    "DATE": "DATE '9999-12-0{n}'",
    "TIMESTAMP": "TIMESTAMP '2024-03-31 01:30:0{n}'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '0001-01-01 00:00:0{n}'",
    "TIME(6)": "TIME '23:59:59.99999{n}'",
    "INTERVAL DAY TO SECOND": "INTERVAL '{n}' DAY",
    "INTERVAL YEAR TO MONTH": "INTERVAL '{n}' MONTH",
    "INTERVAL": "MAKE_INTERVAL(0, {n}, 0, 1)",
    "ARRAY<INT>": "ARRAY({n}, NULL)",
    "ARRAY<STRUCT<a: INT, b: ARRAY<DOUBLE>>>": "ARRAY(NAMED_STRUCT('a', {n}, 'b', ARRAY(-0.0D)))",
    "STRUCT<a: INT, b: STRING>": "NAMED_STRUCT('a', {n}, 'b', 'x')",
    "MAP<STRING, INT>": "MAP('a', {n})",
    "VARIANT": "PARSE_JSON('{{\"a\": {n}}}')",
    "ARRAY<VARIANT>": "ARRAY(PARSE_JSON('{n}'))",
    "GEOMETRY(4326)": f"ST_SETSRID(ST_GEOMFROMWKB({POINT}), 4326)",
    "GEOGRAPHY(4326)": f"ST_GEOGFROMWKB({POINT})",
    "VOID": "NULL",
}
"""Type -> a value of it; `{n}` makes several."""

USES = {
    "read": "SELECT c FROM t",
    "grouped": "SELECT c, COUNT(*) AS n FROM t GROUP BY c",
    "joined": "SELECT t.id, u.id AS o FROM t LEFT JOIN u ON t.c = u.c",
    "in a set": "SELECT c FROM t EXCEPT ALL SELECT c FROM u",
    "MIN, MAX": "SELECT id, MIN(c) AS a, MAX(c) AS b FROM t GROUP BY id",
    "SUM, AVG": "SELECT id, SUM(c) AS a, AVG(c) AS b FROM t GROUP BY id",
    "COUNT DISTINCT": "SELECT COUNT(DISTINCT c) AS n FROM t",
    "sorted": "SELECT c, id FROM t ORDER BY c, id LIMIT 2",
}
COLUMNS = ("declared", "inserted", "deleted", "key", *USES)


def try_type(spark: SparkSession, kind: str) -> dict[str, str]:
    """Return what becomes of each use of a column of a type."""
    found = dict.fromkeys(COLUMNS, "-")
    with laminar.connect(spark=spark) as db:
        for table in ("t", "u"):
            found["declared"] = _done(db, f"CREATE TABLE {table} (id INT, c {kind})")
        if found["declared"] != "yes":
            return found
        found["key"] = _done(db, f"CREATE TABLE k (c {kind}, id INT, PRIMARY KEY (c))")
        kept = {use: query for use, query in USES.items() if _view(db, use, query, found)}
        values = [TYPES[kind].format(n=n) for n in (1, 2, 1)]
        rows = ", ".join(f"SELECT {at} AS id, {value} AS c" for at, value in enumerate(values, 1))
        rows = rows.replace(", SELECT", " UNION ALL SELECT")
        for table in ("t", "u"):
            found["inserted"] = _done(db, f"INSERT INTO {table} {rows} UNION ALL SELECT 4, NULL")
        _step(db)
        found["deleted"] = _done(db, "DELETE FROM t WHERE id IN (1, 4)")
        _step(db)
        for use, query in kept.items():
            compared = outcome(db, _name(use), query)
            if compared == "fails alike":
                found[use] += ", fails as in Spark"
            elif compared != "equal":
                found[use] = f"WRONG: {compared}"
    return found


def _step(db: laminar.Database) -> None:
    with suppress(laminar.OperatorError):  # of one view, which is seen when it is compared
        db.step()


def _done(db: laminar.Database, statement: str) -> str:
    try:
        db.execute(statement)
    except FAILS as error:
        return _code(error)
    return "yes"


def _code(error: Exception) -> str:
    return str(getattr(error, "code", type(error).__name__))


def _view(db: laminar.Database, use: str, query: str, found: dict[str, str]) -> bool:
    found[use] = _done(db, f"CREATE MATERIALIZED VIEW {_name(use)} AS {query}")
    if found[use] != "yes":
        return False
    strategy = db.engine.defined.catalog.programs[_name(use)].strategy
    found[use] = strategy.value.replace("_", " ")
    return True


def _name(use: str) -> str:
    return "v_" + "".join(each if each.isalnum() else "_" for each in use.lower())
