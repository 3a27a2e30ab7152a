from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from laminar.connectors import Offset, explain_failure
from laminar.connectors import files as files_module
from laminar.errors import (
    BadOption,
    LaminarError,
    MissingOption,
    RowDoesNotFit,
    SourceReadFailed,
    UnknownOption,
)

from .rows import bag, by_arrow, by_spark, files, write


def fit(number: int) -> str:
    return f'{{"a": {number}, "b": "x{number}"}}\n'


def failure(source: files_module.FilesSource, spark: SparkSession) -> LaminarError:
    """Read everything the way the engine does, and return what it comes to."""
    end = source.latest_offset(None)
    assert end is not None
    assert source.read_arrow(None, end) is None
    try:
        source.read(spark, None, end).toArrow()
    except Exception as error:
        return explain_failure(source, source.name, spark, None, end, error)
    raise AssertionError("it was read")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.json", "{}\n", "json"),
        ("x.jsonl", "{}\n", "json"),
        ("x.csv", "a\n1\n", "csv"),
        ("x.parquet", b"", "parquet"),
        ("x.csv.gz", gzip.compress(b"a\n1\n", mtime=0), "csv"),
    ],
)
def test_the_format_follows_the_name(
    tmp_path: Path, name: str, content: str | bytes, expected: str
) -> None:
    path = write(tmp_path, name, content)
    assert files(path, "a bigint").format.name == expected
    assert files(tmp_path, "a bigint").format.name == expected


def test_files_of_two_formats_need_to_be_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "{}\n")
    write(tmp_path, "a.csv", "a\n")
    with pytest.raises(MissingOption, match="format"):
        files(tmp_path, "a bigint")
    assert files(tmp_path, "a bigint", pattern="*.csv").format.name == "csv"
    assert files(tmp_path, "a bigint", format="json").folder.names() == ["a.json"]


@pytest.mark.parametrize(
    "options",
    [
        {"format": "xml"},
        {"max_files_per_batch": "0"},
        {"pattern": "sub/*.json"},
        {"format": "csv", "delimiter": ";;"},
        {"format": "csv", "delimiter": '"'},
        {"format": "csv", "header": "maybe"},
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(BadOption):
        files(tmp_path, "a bigint", **{"format": "json", **options})


def test_an_option_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownOption) as error:
        files(tmp_path, "a bigint", format="json", header="true")
    assert error.value.option == "header"
    with pytest.raises(UnknownOption) as error:
        files(tmp_path, "a bigint", format="json", max_files_per_bach="1")
    assert error.value.suggestion == "max_files_per_batch"


def test_csv_cannot_hold_nested_columns(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="csv") as error:
        files(tmp_path, "a array<int>", format="csv")
    assert '"a" is nested' in error.value.hint


@pytest.mark.spark
def test_batches_are_replayed_to_the_row(tmp_path: Path, spark: SparkSession) -> None:
    for number in range(5):
        write(tmp_path, f"{number}.json", fit(number) + fit(number))
    source = files(tmp_path, "a bigint, b string", max_files_per_batch="2")
    offset: Offset | None = None
    seen = []
    while (end := source.latest_offset(offset)) is not None:
        seen.append((offset, end, bag(by_spark(source, spark, offset, end))))
        offset = end
    assert [sorted({row[0][1] for row in rows}) for *_, rows in seen] == [[0, 1], [2, 3], [4]]
    again = files(tmp_path, "a bigint, b string")
    for start, end, rows in seen:
        assert bag(by_spark(again, spark, start, end)) == rows
        assert bag(by_arrow(again, start, end)) == rows
    total = bag(by_spark(again, spark))
    assert total == sum((rows for *_, rows in seen), start=type(total)())
    assert total.total() == 10


@pytest.mark.spark
def test_a_range_without_files_has_the_columns_and_no_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    write(tmp_path, "a.json", fit(1))
    source = files(tmp_path, "a bigint, b string")
    end = source.latest_offset(None)
    empty = by_spark(source, spark, end, end)
    assert (empty.num_rows, empty.schema.names) == (0, ["a", "b"])
    arrow = by_arrow(source, end, end)
    assert arrow is not None
    assert arrow.schema == by_spark(source, spark).schema


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["a b.json", "a[1].json", "a{1,2}.json", "a*?.json", "a%20.json", "é.json", "#a.json"]
)
def test_names_are_taken_literally(tmp_path: Path, spark: SparkSession, name: str) -> None:
    write(tmp_path, name, fit(1))
    source = files(tmp_path, "a bigint")
    assert by_spark(source, spark)["a"].to_pylist() == [1]


@pytest.mark.spark
def test_a_large_file_is_several_tasks(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, "a.json", f'{{"a": 1, "b": "{"x" * 990}"}}\n' * 10_000)
    source = files(tmp_path, "a bigint, b string")
    end = source.latest_offset(None)
    assert end is not None
    frame = source.read(spark, None, end)
    parts = frame.selectExpr("spark_partition_id() AS part").distinct().count()
    assert parts == 2


def test_a_batch_beyond_the_limit_is_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.json", fit(1))
    source = files(tmp_path, "a bigint")
    assert by_arrow(source) is not None
    monkeypatch.setattr(files_module, "ARROW_LIMIT", 5)
    assert by_arrow(source) is None


@pytest.mark.spark
def test_compressed_files_are_left_to_spark(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, "a.csv.gz", gzip.compress(b'a,b\n1,"x ""y"""\n'))
    source = files(tmp_path, "a bigint, b string", pattern="*.csv.gz")
    assert by_arrow(source) is None
    assert by_spark(source, spark).to_pylist() == [{"a": 1, "b": 'x "y"'}]


@pytest.mark.sampled(3)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"a": "seven", "b": "x"}', 'column "a" is bigint'),
        ('{"a": 9223372036854775808}', 'column "a" is bigint'),
        ('{"a": 1e3}', 'column "a" is bigint'),
        ('{"a": 1, "t": 200}', 'column "t" is tinyint'),
        ('{"a": 1, "n": {"x": 40000}}', None),
        ('{"a": null}', 'column "a" is NOT NULL'),
        ('{"b": "x"}', 'column "a" is NOT NULL'),
        ('{"a": 1, "b": "x"', "not a JSON object"),
        ("null", "not a JSON object"),
        ("plain text", "not a JSON object"),
    ],
)
def test_a_json_row_that_does_not_fit_is_found(
    tmp_path: Path, spark: SparkSession, bad: str, reason: str | None
) -> None:
    write(tmp_path, "1.json", fit(1))
    path = write(tmp_path, "2.json", fit(1) + "\n" + fit(2) + bad + "\n" + fit(3))
    write(tmp_path, "3.json", fit(4))
    source = files(
        tmp_path, "a bigint NOT NULL, b string, t tinyint, n struct<x:smallint>", format="json"
    )
    error = failure(source, spark)
    assert error.__cause__ is not None
    if reason is None:
        # Which row it was is only known for columns, not for what lies inside them.
        assert isinstance(error, SourceReadFailed)
        assert error.file == str(path)
        return
    assert isinstance(error, RowDoesNotFit)
    assert (error.file, error.line, error.text) == (str(path), 4, bad)
    assert reason in error.reason


@pytest.mark.sampled(3)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("x,y", "a bigint"),
        ("1", "a bigint"),
        ("1,x,2", "a bigint"),
        (" 1,x", "a bigint"),
        ("0x10,x", "a bigint"),
        (",x", 'column "a" is NOT NULL'),
        ('1,"x', "a quote is left open"),
        (b"1,\xff", "not UTF-8"),
        ('1,"x\ry"', "a carriage return"),
    ],
)
def test_a_csv_row_that_does_not_fit_is_found(
    tmp_path: Path, spark: SparkSession, bad: str | bytes, reason: str
) -> None:
    line = bad if isinstance(bad, bytes) else bad.encode()
    path = write(tmp_path, "1.csv", b"a,b\n1,x\n\n" + line + b"\n2,y\n")
    error = failure(files(tmp_path, "a bigint NOT NULL, b string"), spark)
    assert isinstance(error, RowDoesNotFit)
    assert (error.file, error.line) == (str(path), 4)
    assert error.text == line.decode(errors="backslashreplace")
    assert reason in error.reason


@pytest.mark.spark
def test_a_header_that_names_other_columns_is_an_error(tmp_path: Path, spark: SparkSession) -> None:
    path = write(tmp_path, "1.csv", "b,a\nx,1\n")
    error = failure(files(tmp_path, "a string, b string"), spark)
    assert isinstance(error, SourceReadFailed)
    assert error.file == str(path)
    assert "header" in error.detail.lower()


@pytest.mark.spark
def test_a_parquet_file_of_other_types_is_an_error(tmp_path: Path, spark: SparkSession) -> None:
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "1.parquet")
    error = failure(files(tmp_path, "a bigint"), spark)
    assert isinstance(error, SourceReadFailed)
    assert error.file == str(tmp_path / "1.parquet")


@pytest.mark.spark
def test_nothing_is_wrong_with_rows_that_fit(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, "1.json", fit(1))
    source = files(tmp_path, "a bigint NOT NULL")
    end = source.latest_offset(None)
    assert end is not None
    assert source.explain(spark, None, end) is None
