from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laminar.errors import SqlError
from laminar.sql import rewrite_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REWRITTEN = [
    ("TUMBLE(ts, INTERVAL '1' MINUTE)", "window(ts, '1 minute')"),
    ("TUMBLE(ts, INTERVAL '1 minute')", "window(ts, '1 minute')"),
    ("tumble ( ts , interval 1 minutes )", "window(ts, '1 minute')"),
    ("TUMBLE(ts, '90 seconds')", "window(ts, '90 second')"),
    ("TUMBLE(ts, INTERVAL 1 HOUR 30 MINUTES)", "window(ts, '1 hour 30 minute')"),
    (
        "TUMBLE(ts, INTERVAL '1' DAY, INTERVAL '-2' HOURS)",
        "window(ts, '1 day', '1 day', '-2 hour')",
    ),
    ("TUMBLE_START(ts, INTERVAL '1 second')", "window(ts, '1 second').start"),
    ("TUMBLE_END(t.ts, INTERVAL '1' WEEK)", "window(t.ts, '1 week').end"),
    ("HOP(ts, INTERVAL '1' SECOND, INTERVAL '5' SECOND)", "window(ts, '5 second', '1 second')"),
    ("HOP_END(ts, '1 day', '2 days')", "window(ts, '2 day', '1 day').end"),
    ("TUMBLE(coalesce(a, b), INTERVAL '1' DAY)", "window(coalesce(a, b), '1 day')"),
    (
        "TUMBLE(TUMBLE_END(ts, '1 day'), '2 days')",
        "window(window(ts, '1 day').end, '2 day')",
    ),
    ("'TUMBLE(ts, 1)'", "'TUMBLE(ts, 1)'"),
    ("/* TUMBLE(ts, 1) */ 1 -- HOP(x)", "/* TUMBLE(ts, 1) */ 1 -- HOP(x)"),
    ("`TUMBLE`, tumble, t.hop", "`TUMBLE`, tumble, t.hop"),
    ("tumbler(a), session_window(ts, '1 day')", "tumbler(a), session_window(ts, '1 day')"),
    ("SESSION(ts, INTERVAL '5' MINUTE)", "session_window(ts, '5 minute')"),
    ("SESSION_END(ts, '1 day')", "session_window(ts, '1 day').end"),
    ("  a ,\n\tb  ", "  a ,\n\tb  "),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expected"), REWRITTEN)
def test_a_window_is_said_in_the_words_of_spark(text: str, expected: str) -> None:
    assert rewrite_windows(text) == expected


def test_only_the_calls_change() -> None:
    text = (
        "SELECT  TUMBLE_START(ts, '1 day') AS a -- x\n, 'é'\nFROM t GROUP BY\tTUMBLE(ts, '1 day')"
    )
    assert rewrite_windows(text) == (
        "SELECT  window(ts, '1 day').start AS a -- x\n, 'é'\nFROM t GROUP BY\twindow(ts, '1 day')"
    )


def test_windows_that_begin_together_are_rows_that_a_view_makes() -> None:
    call = "(ts, INTERVAL '1' SECOND, INTERVAL '1' MINUTE)"
    text = (
        f"SELECT CUMULATE_END{call}, (SELECT 1 FROM u WHERE a) FROM (SELECT * FROM t WHERE b) q"
        f" WHERE c GROUP BY CUMULATE{call}"
    )
    found = rewrite_windows(text)
    assert found.startswith("SELECT cumulate_1.end, (SELECT 1 FROM u WHERE a) FROM (SELECT * FROM")
    assert "WHERE b) q LATERAL VIEW EXPLODE(TRANSFORM(" in found
    assert found.endswith(") cumulate_1 AS cumulate_1 WHERE c GROUP BY cumulate_1")
    assert rewrite_windows(f"WITH w AS (SELECT CUMULATE{call} FROM t) SELECT * FROM w").endswith(
        "cumulate_1 AS cumulate_1) SELECT * FROM w"
    )


BAD = [
    ("TUMBLE()", "LMR-3001"),
    ("TUMBLE(ts)", "LMR-3001"),
    ("TUMBLE(ts, '1 day', '1 day', '1 day')", "LMR-3001"),
    ("TUMBLE(, '1 day')", "LMR-3001"),
    ("TUMBLE(ts, size)", "LMR-3001"),
    ("TUMBLE(ts, INTERVAL '1' DAY + INTERVAL '1' DAY)", "LMR-3001"),
    ("TUMBLE(ts, '1 eon')", "LMR-3001"),
    ("TUMBLE(ts, '')", "LMR-3001"),
    ("TUMBLE(ts, INTERVAL '1' MONTH)", "LMR-3005"),
    ("TUMBLE(ts, INTERVAL '1' DAY TO SECOND)", "LMR-3005"),
    ("TUMBLE(TABLE t, '1 day')", "LMR-3005"),
    ("HOP(ts, '1 day')", "LMR-3001"),
    ("HOP_START(ts, '1 s' , '5 s')", "LMR-3001"),
    ("SESSION(ts, '1 day', '1 day')", "LMR-3001"),
    ("CUMULATE(ts, '2 days', '3 days')", "LMR-3001"),
    ("CUMULATE_END(ts, '1 day')", "LMR-3001"),
]


@pytest.mark.parametrize(("text", "code"), BAD)
def test_a_window_that_makes_no_sense_is_refused(text: str, code: str) -> None:
    with pytest.raises(SqlError) as caught:
        rewrite_windows(f"SELECT\n {text} FROM t")
    assert caught.value.code == code
    assert caught.value.line == 2


@pytest.mark.spark
def test_spark_makes_the_windows_that_were_meant(spark: SparkSession) -> None:
    query = rewrite_windows(
        "SELECT date_format(TUMBLE_START(ts, INTERVAL '10' MINUTE), 'HH:mm'),"
        " date_format(TUMBLE_END(ts, INTERVAL '10' MINUTE), 'HH:mm'), count(*)"
        " FROM VALUES (timestamp'2024-01-01 00:03:00'), (timestamp'2024-01-01 00:09:59'),"
        " (timestamp'2024-01-01 00:10:00') t(ts) GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE)"
    )
    rows = sorted(tuple(row) for row in spark.sql(query).collect())
    assert rows == [("00:00", "00:10", 2), ("00:10", "00:20", 1)]
    hops = rewrite_windows(
        "SELECT date_format(HOP_START(ts, '5 minutes', '10 minutes'), 'HH:mm') FROM"
        " VALUES (timestamp'2024-01-01 00:12:00') t(ts) GROUP BY HOP(ts, '5 minutes', '10 minutes')"
    )
    assert sorted(row[0] for row in spark.sql(hops).collect()) == ["00:05", "00:10"]
    shifted = rewrite_windows(
        "SELECT date_format(TUMBLE_START(ts, '10 minutes', '2 minutes'), 'HH:mm') FROM"
        " VALUES (timestamp'2024-01-01 00:11:00') t(ts)"
    )
    assert [row[0] for row in spark.sql(shifted).collect()] == ["00:02"]
