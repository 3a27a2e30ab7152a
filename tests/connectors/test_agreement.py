"""Spark's reader and Arrow's give the same rows, bit for bit, or Arrow's gives none."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from laminar.connectors.arrow_types import arrow_type
from laminar.connectors.file_formats import file_format
from laminar.connectors.options import Options
from laminar.connectors.spark_files import widened

from .rows import bag, by_arrow, by_spark, files, write

SCHEMA = (
    "i bigint, s string, d double, m decimal(20,4), b boolean, day date, at timestamp, "
    "wall timestamp_ntz, n struct<x:bigint,y:array<double>>, l array<struct<k:string,v:int>>"
)

ALIKE = {
    "missing fields": '{"i": 1}\n{}\n',
    "explicit nulls": '{"i": null, "s": null, "at": null, "day": null, "n": null, "l": [null]}\n',
    "unknown fields": '{"i": 1, "zz": {"i": 2, "q": [1, "x", null]}, "I": 7}\n',
    "unicode": '{"s": "é😀\\u00e9\\ud83d\\ude00 \\u0000"}\n',
    "escapes": '{"s": "a\\"b\\\\c\\/d\\n\\t"}\n',
    "exponents": '{"d": 1e3, "m": 1e3}\n{"d": 5E-324, "m": "12.5e-1"}\n',
    "negative zero, a decimal one": '{"m": -0.0}\n',
    "long doubles": '{"d": 0.30000000000000004}\n{"d": 9007199254740993}\n',
    "exact decimals": '{"m": 9007199254740993.0001}\n{"m": "0.1"}\n{"m": 0.1}\n',
    "with T": '{"at": "2024-01-02T03:04:05", "wall": "2024-01-02T03:04:05"}\n',
    "with a space": '{"at": "2024-01-02 03:04:05", "wall": "2024-01-02 03:04:05.5"}\n',
    "millis": '{"at": "2024-01-02T03:04:05.123"}\n{"at": "2024-01-02T03:04:05.1"}\n',
    "micros": '{"at": "2024-01-02 03:04:05.123456"}\n{"at": "2024-01-02 03:04:05.000001"}\n',
    "Z": '{"at": "2024-01-02T03:04:05Z"}\n{"at": null}\n{"at": "1969-12-31T23:59:59.999999Z"}\n',
    "offsets": '{"at": "2024-01-02T03:04:05+02:00"}\n{"at": "2024-01-02T03:04:05.1-0330"}\n',
    "dates": '{"day": "2024-02-29", "at": "2024-02-29"}\n{"day": "0001-01-01"}\n',
    "nested": '{"n": {"x": 1, "y": [1.5, null, 2]}, "l": [{"k": "a"}, {"v": 2}, null, {}]}\n',
    "null first in a list": '{"n": {"y": [null, 1]}}\n{"l": [null, null]}\n{"l": []}\n',
    "no newline at the end": '{"i": 1}\n{"i": 2}',
    "two in a list of one": '{"l": [{"k": "x", "v": 1}]}\n' * 3,
    "an empty file": "",
}

LEFT_TO_SPARK = {
    "negative zero": '{"d": -0}\n{"d": -0.0}\n',
    "blank lines": '\n{"i": 1}\n\n   \n{"i": 2}\n\n',
    "only blank lines": "\n\n",
    "windows line ends": '{"i": 1}\r\n{"i": 2}\r\n',
    "a byte order mark": '\ufeff{"i": 1}\n',
    "an array": '[{"i": 1}, {"i": 2}]\n',
    "two objects in a line": '{"i": 1} {"i": 2}\n',
    "a field twice": '{"i": 1, "i": 2}\n',
    "numbers as text": '{"s": 1.50}\n{"s": {"q":  1}}\n',
    "not a number": '{"d": NaN}\n{"d": "Infinity"}\n',
    "epoch seconds": '{"at": 1700000000}\n',
    "nanoseconds": '{"at": "2024-01-02T03:04:05.123456789Z"}\n',
    "zones here and there": '{"at": "2024-01-02T03:04:05"}\n{"at": "2024-01-02T03:04:05Z"}\n',
    "short dates": '{"day": "2024-1-2", "at": "2024-1-2 3:4:5"}\n',
    "rounded decimals": '{"m": 0.00005}\n',
}


@pytest.mark.spark
@pytest.mark.parametrize("case", ALIKE)
def test_json_read_by_both(tmp_path: Path, spark: SparkSession, case: str) -> None:
    write(tmp_path, "a.json", ALIKE[case])
    source = files(tmp_path, SCHEMA)
    fast, slow = by_arrow(source), by_spark(source, spark)
    assert fast is not None
    assert fast.schema.names == slow.schema.names
    assert [str(kind) for kind in fast.schema.types] == [
        str(kind).replace("element", "item") for kind in slow.schema.types
    ]
    assert bag(fast) == bag(slow)


@pytest.mark.sampled(3)
@pytest.mark.spark
@pytest.mark.parametrize("case", LEFT_TO_SPARK)
def test_json_left_to_spark(tmp_path: Path, spark: SparkSession, case: str) -> None:
    write(tmp_path, "a.json", LEFT_TO_SPARK[case])
    source = files(tmp_path, SCHEMA)
    assert by_arrow(source) is None
    by_spark(source, spark)


@pytest.mark.spark
def test_the_values_are_right_and_not_only_alike(tmp_path: Path, spark: SparkSession) -> None:
    write(
        tmp_path,
        "a.json",
        '{"i": 1, "s": "é\\"", "d": 1e3, "m": 9007199254740993.0001, "b": true, '
        '"day": "2024-02-29", "at": "2024-01-02T03:04:05.5+02:00", "wall": "2024-01-02 03:04:05",'
        ' "n": {"x": 1, "y": [null]}, "l": [{"k": "a"}]}\n',
    )
    expected = {
        "i": 1,
        "s": 'é"',
        "d": 1000.0,
        "m": Decimal("9007199254740993.0001"),
        "b": True,
        "day": date(2024, 2, 29),
        "at": datetime(2024, 1, 2, 1, 4, 5, 500_000, tzinfo=UTC),
        "wall": datetime(2024, 1, 2, 3, 4, 5),
        "n": {"x": 1, "y": [None]},
        "l": [{"k": "a", "v": None}],
    }
    source = files(tmp_path, SCHEMA)
    fast = by_arrow(source)
    assert fast is not None
    assert fast.to_pylist() == [expected]
    assert by_spark(source, spark).to_pylist() == [expected]


@pytest.mark.spark
def test_times_without_a_zone_are_utc_whatever_the_session_says(
    tmp_path: Path, spark: SparkSession
) -> None:
    write(tmp_path, "a.json", '{"at": "2024-07-01T12:00:00"}\n')
    source = files(tmp_path, "at timestamp")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        slow = by_spark(source, spark)["at"].cast(pa.int64()).to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    fast = by_arrow(source)
    assert fast is not None
    noon = int(datetime(2024, 7, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000
    assert slow == fast["at"].cast(pa.int64()).to_pylist() == [noon]


@pytest.mark.parametrize("kind", ["binary", "map<string,bigint>", "array<date>", "variant"])
def test_types_that_arrow_reads_otherwise_are_left_to_spark(tmp_path: Path, kind: str) -> None:
    write(tmp_path, "a.json", "{}\n")
    assert by_arrow(files(tmp_path, f"a {kind}")) is None


@pytest.mark.spark
@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_long_lines_and_many_blocks(tmp_path: Path, spark: SparkSession, size: int) -> None:
    lines = [f'{{"i": {number}, "s": "{"x" * (number * size // 40)}"}}' for number in range(40)]
    write(tmp_path, "a.json", "\n".join(lines))
    source = files(tmp_path, "i bigint, s string")
    fast = by_arrow(source)
    assert fast is not None
    assert bag(fast) == bag(by_spark(source, spark))


CSV = {
    "plain": "i,s,d\n1,x,1.5\n2,y,-3\n",
    "nulls": 'i,s,d\n,,\n"","",""\n',
    "quotes": 'i,s,d\n"1","a ""b"" c","2"\n2,"x,y",3\n',
    "backslashes": 'i,s,d\n1,\\,2\n2,"a\\",3\n3,a\\nb,4\n',
    "windows line ends": "i,s,d\r\n1,x,2\r\n",
    "no newline at the end": "i,s,d\n1,x,2",
    "blank lines": "i,s,d\n\n1,x,2\n\n",
    "unicode": "i,s,d\n1,é😀,2\n",
    "spaces": 'i,s,d\n1, x ," 2"\n2,"a, ""b"" ", 3 \n',
    "a byte order mark": "\ufeffi,s,d\n1,x,2\n",
    "only a header": "i,s,d\n",
    "nothing": "",
}
CSV_LEFT_TO_SPARK = {
    "other case": "I,S,D\n1,x,2\n",
    "upper case": "i,s,d\n1,x,1E400\n",
    "quotes inside": 'i,s,d\n1,a"b"c,2\n',
    "text after a quote": 'i,s,d\n1,"x" ,2\n',
    "a plus": "i,s,d\n+1,x,2\n",
    "not a number": "i,s,d\n1,x,NaN\n",
}


@pytest.mark.spark
@pytest.mark.parametrize("case", CSV)
def test_csv_read_by_both(tmp_path: Path, spark: SparkSession, case: str) -> None:
    write(tmp_path, "a.csv", CSV[case])
    source = files(tmp_path, "i bigint, s string, d double")
    fast, slow = by_arrow(source), by_spark(source, spark)
    assert fast is not None
    assert fast.schema == slow.schema
    assert bag(fast) == bag(slow)


@pytest.mark.sampled(3)
@pytest.mark.spark
@pytest.mark.parametrize("case", CSV_LEFT_TO_SPARK)
def test_csv_left_to_spark(tmp_path: Path, spark: SparkSession, case: str) -> None:
    write(tmp_path, "a.csv", CSV_LEFT_TO_SPARK[case])
    source = files(tmp_path, "i bigint, s string, d double")
    assert by_arrow(source) is None
    assert by_spark(source, spark).num_rows == 1


@pytest.mark.spark
def test_csv_of_another_dialect(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, "a.csv", "1\tx,y\n2\tz\n")
    source = files(tmp_path, "i bigint, s string", header="false", delimiter="\\t")
    fast = by_arrow(source)
    assert fast is not None
    assert bag(fast) == bag(by_spark(source, spark))
    assert fast["s"].to_pylist() == ["x,y", "z"]


@pytest.mark.spark
def test_parquet_read_by_both(tmp_path: Path, spark: SparkSession) -> None:
    schema = (
        "i bigint, s string, m decimal(20,4), at timestamp, wall timestamp_ntz, day date, "
        "l array<struct<k:string>>, missing double"
    )
    at = datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    rows = {
        "i": pa.array([1, None], pa.int64()),
        "m": pa.array([Decimal("1.2345"), None], pa.decimal128(20, 4)),
        "s": pa.array(["é", None]),
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        "wall": pa.array([at.replace(tzinfo=None), None], pa.timestamp("us")),
        "day": pa.array([date(1500, 2, 28), None]),
        "l": pa.array([[{"k": "x"}, None], []], pa.list_(pa.struct([("k", pa.string())]))),
        "more": pa.array([1, 2]),
    }
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    source = files(tmp_path, schema)
    fast = by_arrow(source)
    assert fast is not None
    assert bag(fast) == bag(by_spark(source, spark))
    assert fast["missing"].null_count == 2


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "kind"), [("I", pa.int64()), ("i", pa.int32())], ids=["other case", "narrower"]
)
def test_parquet_left_to_spark(
    tmp_path: Path, spark: SparkSession, name: str, kind: pa.DataType
) -> None:
    pq.write_table(pa.table({name: pa.array([1], kind)}), tmp_path / "a.parquet")
    source = files(tmp_path, "i bigint")
    assert by_arrow(source) is None
    assert by_spark(source, spark).to_pylist() == [{"i": 1}]


def mostly(dice: random.Random, usual: str, *others: str) -> str:
    return usual if dice.random() < 0.8 else dice.choice(others)


def a_time(dice: random.Random) -> str:
    text = mostly(dice, "2024", "1969", "0001", "0000", "9999", "1500", "24", "12024")
    text += "-" + mostly(dice, "01", "1", "12", "13", "02")
    text += "-" + mostly(dice, "02", "2", "29", "30", "31", "00")
    if dice.random() < 0.3:
        return text
    text += dice.choice("T ") if dice.random() < 0.9 else dice.choice(["t", "  "])
    text += mostly(dice, "03:04", "3:4", "23:59", "24:00", "03:60", "03")
    text += mostly(dice, ":05", ":5", ":59", ":60", "")
    text += dice.choice(["", "." + "".join(dice.choices("0123456789", k=dice.randrange(9)))])
    zones = ["z", "-0030", "+18:00", "+17:59", "+19:00", "+02", " UTC", "+2:00"]
    return text + dice.choice(["", "", "Z", "+02:00", dice.choice(zones)])


def a_number(dice: random.Random) -> str:
    whole = [
        "0",
        "00",
        "1",
        "5",
        "12",
        "99",
        "007",
        "127",
        "128",
        "32768",
        "2147483648",
        "123456789",
    ]
    long = ["9223372036854775807", "9223372036854775808", "99999999.99", "99999999.995"]
    ends = ["", "", ".", ".5", ".50", ".125", ".0", "e1", "e-3", "E+2", "e400", "e-400"]
    return dice.choice(["", "-", "+"]) + dice.choice(whole + long) + dice.choice(ends)


KINDS: dict[str, Callable[[random.Random], str]] = {
    **dict.fromkeys(["timestamp", "timestamp_ntz", "date"], a_time),
    **dict.fromkeys(["bigint", "int", "smallint", "tinyint", "double", "float"], a_number),
    **dict.fromkeys(["decimal(10,2)", "decimal(38,18)"], a_number),
    "boolean": lambda dice: dice.choice(["true", "false", "TRUE", "1", "t", "yes"]),
}


@pytest.mark.sampled(5)
@pytest.mark.spark
@pytest.mark.parametrize("layout", ["json", "csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_arrow_takes_spark_takes_as_the_same(
    tmp_path: Path, spark: SparkSession, kind: str, layout: str
) -> None:
    """Each text is given to Arrow alone, and to Spark, which marks what it refuses."""
    dice = random.Random(kind)
    texts = [KINDS[kind](dice) for _ in range(600)]
    head = "a,i\n" if layout == "csv" else ""
    lines = [_line(layout, kind, text, number, dice) for number, text in enumerate(texts)]
    reader = file_format(layout, Options("files", {}))
    path = write(tmp_path, f"all.{layout}", head + "\n".join(lines))
    judged = (
        spark.read.schema(f"a {widened(kind)}, i int, bad string")
        .options(**reader.reader_options)
        .options(mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
        .format(layout)
        .load(str(path))
        .toArrow()
    )
    accepted = {row["i"]: row["a"] for row in _plain(judged) if row["bad"] is None}
    schema = pa.schema([("a", arrow_type(kind)), ("i", pa.int32())])
    taken = 0
    for number, line in enumerate(lines):
        table = reader.read_arrow(write(tmp_path, f"one.{layout}", head + line + "\n"), schema)
        if table is not None:
            taken += 1
            assert number in accepted, line
            expected = {"a": accepted[number], "i": number}
            assert bag(pa.Table.from_pylist(_plain(table))) == bag(
                pa.Table.from_pylist([expected])
            ), line
    assert taken > 10


def _line(layout: str, kind: str, text: str, number: int, dice: random.Random) -> str:
    quoted = dice.random() < 0.2
    if layout == "csv":
        text = f'"{text}"' if quoted else text
        around = dice.choice(["", "", "", "", " ", "\t"])
        return f"{around}{text}{dice.choice(['', '', '', '', around])},{number}"
    quoted = quoted or kind in ("timestamp", "timestamp_ntz", "date")
    text = f'"{text}"' if quoted else text
    return f'{{"a": {text}, "i": {number}}}'


def _plain(table: pa.Table) -> list[dict[str, object]]:
    # As integers: Python has no year 0.
    column = table["a"]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    rows: list[dict[str, object]] = table.set_column(0, "a", column).to_pylist()
    return rows
