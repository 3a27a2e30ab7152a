from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laminar.sql import Location, forbidden_functions, unfinished_times
from laminar.sql.determinism import _CALLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORBIDDEN = [
    ("SELECT rand()", ["rand"]),
    ("SELECT RAND(5), uuid ( )", ["rand", "uuid"]),
    ("SELECT `rand`(), system.builtin.rand()", ["rand", "rand"]),
    ("SELECT current_date", ["current_date"]),
    ("SELECT CURRENT_TIMESTAMP - ts", ["current_timestamp"]),
    ("SELECT current_timestamp()", ["current_timestamp"]),
    ("SELECT id, current_path AS p FROM t WHERE current_path = 'a'", ["current_path"] * 2),
    ("SELECT a FROM t WHERE ts > now() - INTERVAL 1 DAY", ["now"]),
    ("SELECT (SELECT max(x + randn()) FROM t)", ["randn"]),
    ("SELECT unix_timestamp()", ["unix_timestamp"]),
    ("SELECT current_user, current_database()", ["current_user", "current_database"]),
    ("SELECT input_file_name(), spark_partition_id()", ["input_file_name", "spark_partition_id"]),
    (
        "SELECT shuffle(a), monotonically_increasing_id()",
        ["shuffle", "monotonically_increasing_id"],
    ),
    ("SELECT DATE 'today', TIMESTAMP ' Now '", ["the time 'today'", "the time 'now'"]),
    (
        "SELECT cast('now' AS timestamp), 'yesterday'::date",
        ["the time 'now'", "the time 'yesterday'"],
    ),
    ("SELECT aes_encrypt(a, k), AES_ENCRYPT(a, k, 'GCM', 'DEFAULT', '')", ["aes_encrypt"] * 2),
    ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", ["tablesample"]),
    ("SELECT TRANSFORM (a) USING 'cat' FROM t", ["transform using a script"]),
    ("SELECT IDENTIFIER('ra' || 'nd')() FROM t", ["a function by identifier"]),
    ("SELECT IDENTIFIER('a') FROM IDENTIFIER('t')", []),
]

ALLOWED = [
    "SELECT rand FROM t",
    "SELECT t.now, `uuid`, 'rand()', user FROM t -- now()",
    "SELECT a AS current_date FROM t",
    "SELECT t.current_date FROM t",
    "SELECT `current_path`, current_path.x AS current_path, current_path() FROM current_path",
    "SELECT session_user.a FROM t AS session_user",
    "SELECT unix_timestamp(ts) FROM t",
    "SELECT randomize(a), my_uuid(b) FROM t",
    "WITH now (a) AS (SELECT 1) SELECT * FROM now",
    "SELECT * FROM f() AS random (a, b)",
    "SELECT 'now', a = 'today', DATE '2024-01-01'",
    "SELECT a FROM t JOIN u USING (b)",
    "SELECT aes_encrypt(a, k, 'ECB'), aes_encrypt(a, k, 'CBC', 'DEFAULT', x), aes_decrypt(a, k)",
]


@pytest.mark.parametrize(("query", "names"), FORBIDDEN)
def test_what_is_not_decided_by_the_rows_is_found(query: str, names: list[str]) -> None:
    assert [name for name, _ in forbidden_functions(query)] == names


@pytest.mark.parametrize("query", ALLOWED)
def test_a_name_is_not_a_call(query: str) -> None:
    assert forbidden_functions(query) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("now", True),
        (" Today CET", True),
        ("yesterday", True),
        ("9:30", True),
        ("T09:00:00", True),
        ("nowhere", False),
        ("2026-01-01 09:00", False),
        ("epoch", False),
        ("09", False),
        ("at 9:30", False),
    ],
)
def test_a_time_that_the_clock_completes_is_known(text: str, found: bool) -> None:
    query = f"SELECT '{text}'"
    assert unfinished_times(query) == ([(text, 7, len(query))] if found else [])


def test_the_place_is_known() -> None:
    assert forbidden_functions("SELECT a,\n  now()") == [("now", Location(2, 3, 12))]


@pytest.mark.spark
def test_every_forbidden_function_exists(spark: SparkSession) -> None:
    known = {row[0].upper() for row in spark.sql("SHOW FUNCTIONS").collect()}
    newer = {"LOCALTIME"} if spark.version < "4.3" else set()
    assert known >= _CALLS - newer
    known_unfixed = {name for name in known if name.startswith(("RAND", "CURRENT", "INPUT_FILE"))}
    assert known_unfixed - {"CURRENT_PATH"} <= _CALLS
