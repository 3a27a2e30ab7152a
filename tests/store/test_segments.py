from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laminar.errors.store import SegmentCorrupt, SegmentMissing, StoreUnwritable
from laminar.model.trace import WEIGHT, Segment
from laminar.store import SegmentStore, compact, durable_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PLAIN = "a INT, __weight BIGINT"

TYPES: dict[str, tuple[str, list[str]]] = {
    "boolean": ("BOOLEAN", ["true", "false"]),
    "tinyint": ("TINYINT", ["-128", "127"]),
    "smallint": ("SMALLINT", ["-32768", "32767"]),
    "int": ("INT", ["-2147483648", "2147483647"]),
    "bigint": ("BIGINT", ["-9223372036854775808", "9223372036854775807"]),
    "float": ("FLOAT", ["1.5", "float('-inf')"]),
    "double": ("DOUBLE", ["1e308", "double('nan')", "-0.0D"]),
    "small decimal": ("DECIMAL(9,2)", ["-9999999.99", "0.01"]),
    "medium decimal": ("DECIMAL(18,4)", ["99999999999999.9999"]),
    "large decimal": ("DECIMAL(38,10)", ["-9999999999999999999999999999.9999999999"]),
    "string": ("STRING", ["''", "'größe 名前 \U0001f980'", "'\\u0000'"]),
    "binary": ("BINARY", ["X''", "X'00FF'"]),
    "date": ("DATE", ["DATE'0001-01-01'", "DATE'1582-10-10'", "DATE'9999-12-31'"]),
    "timestamp": (
        "TIMESTAMP",
        [
            "TIMESTAMP'0001-01-01 00:00:00'",
            "TIMESTAMP'1969-12-31 23:59:59.999999'",
            "TIMESTAMP'2024-03-31 02:30:00 Europe/Berlin'",
            "TIMESTAMP'9999-12-31 23:59:59.999999'",
        ],
    ),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ",
        ["TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"],
    ),
    "day interval": ("INTERVAL DAY TO SECOND", ["INTERVAL '-1 02:03:04.000005' DAY TO SECOND"]),
    "year interval": ("INTERVAL YEAR TO MONTH", ["INTERVAL '-2-3' YEAR TO MONTH"]),
    "array": ("ARRAY<INT>", ["array()", "array(1, NULL)"]),
    "array of arrays": ("ARRAY<ARRAY<STRING>>", ["array(array('a', NULL), NULL, array())"]),
    "struct": (
        "STRUCT<x: INT, `y z`: STRUCT<d: DECIMAL(20,3), t: TIMESTAMP>>",
        [
            "named_struct('x', 1, 'y z', NULL)",
            "named_struct('x', NULL, 'y z', named_struct('d', 1.5, 't', TIMESTAMP'2024-01-01'))",
        ],
    ),
    "map": (
        "MAP<STRING, STRUCT<v: ARRAY<DOUBLE>>>",
        ["map()", "map('k', NULL, 'l', named_struct('v', array(1.5D, NULL)))"],
    ),
    "variant": ("VARIANT", ["""parse_json('{"a": [1, null]}')"""]),
}
"""Name -> type and SQL of values; NULL is added to each."""


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession) -> SegmentStore:
    # Signs that mean something in a glob or in an address must not in a folder's name.
    return SegmentStore(tmp_path / "a b[1]{x,y}*%20#?é", spark)


def numbers(*values: int, weights: list[int] | None = None) -> pa.Table:
    columns = {"a": pa.array(values, pa.int32())}
    if weights is not None:
        columns[WEIGHT] = pa.array(weights, pa.int64())
    return pa.table(columns)


def write(store: SegmentStore, table: pa.Table, epoch: int = 1) -> Segment:
    segment = store.write_arrow("r", epoch, table)
    assert segment is not None
    return segment


def bag(df: DataFrame) -> Counter[str]:
    # As Spark's text: Python cannot hold every value, and maps and NaN do not compare in it.
    texts = [
        f"hex({quoted(f.name)})"
        if f.dataType.typeName() == "binary"
        else f"CAST({quoted(f.name)} AS STRING)"
        for f in df.schema.fields
    ]
    return Counter(map(str, df.selectExpr(*texts).collect()))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def rows(store: SegmentStore, *segments: Segment) -> list[tuple[int, int]]:
    return sorted((row[0], row[1]) for row in store.frame(PLAIN, segments).collect())


def data_files(store: SegmentStore) -> set[str]:
    found = (path for path in store.root.rglob("*") if path.is_file())
    return {path.relative_to(store.root).as_posix() for path in found}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TYPES)
def test_every_type_comes_back_whoever_wrote_it(
    store: SegmentStore, spark: SparkSession, name: str
) -> None:
    kind, values = TYPES[name]
    selects = [f"SELECT CAST({value} AS {kind}) AS c, 1L AS {WEIGHT}" for value in values]
    df = spark.sql(" UNION ALL ".join([*selects, "SELECT NULL, -1L"]))
    schema = f"c {kind}, {WEIGHT} BIGINT"
    expected = bag(df)

    small = store.materialise("small", 1, df, expected_rows=3)
    large = store.write_frame("large", 1, df)
    assert small is not None
    assert large is not None
    assert small.rows == large.rows == len(values) + 1
    assert small.insert_only is large.insert_only is False
    both = compact(store, "both", 1, schema, [small, large])
    assert both is not None
    for segments, times in (([small], 1), ([large], 1), ([small, large], 2), ([both], 2)):
        frame = store.frame(schema, segments)
        assert bag(frame) == Counter({row: count * times for row, count in expected.items()})
        assert frame.schema.simpleString() == store.struct(schema).simpleString()


def test_a_null_struct_of_fields_that_cannot_be_null(
    store: SegmentStore, spark: SparkSession
) -> None:
    df = spark.sql(
        "SELECT k, s, array(s) AS `a``s` FROM VALUES (1), (2) AS l(k)"
        " LEFT JOIN (SELECT 1 AS j, named_struct('x', 1) AS s) ON k = j"
    )
    segment = store.materialise("r", 1, df, expected_rows=2)
    assert segment is not None
    schema = f"k INT, s STRUCT<x: INT>, `a``s` ARRAY<STRUCT<x: INT>>, {WEIGHT} BIGINT"
    assert bag(store.frame(schema, [segment])) == bag(df.selectExpr("*", f"1L AS {WEIGHT}"))


def test_rows_without_a_weight_count_once(store: SegmentStore, spark: SparkSession) -> None:
    one = write(store, numbers(1, 2))
    other = store.write_frame("r", 2, spark.sql("SELECT 3 AS a"))
    assert other is not None
    assert rows(store, one, other) == [(1, 1), (2, 1), (3, 1)]


def test_a_narrow_weight_is_widened_and_a_missing_one_refused(store: SegmentStore) -> None:
    narrow = numbers(1).append_column(WEIGHT, pa.array([-1], pa.int8()))
    assert rows(store, write(store, narrow)) == [(1, -1)]
    with pytest.raises(ValueError, match="must not be NULL"):
        store.write_arrow("r", 2, numbers(1).append_column(WEIGHT, pa.nulls(1, pa.int64())))


@pytest.mark.parametrize(
    ("weights", "insert_only"), [([1, 1], True), ([3, 0], True), ([5, -1], False)]
)
def test_insert_only_is_what_the_weights_say(
    store: SegmentStore, spark: SparkSession, weights: list[int], insert_only: bool
) -> None:
    table = numbers(1, 2, weights=weights)
    assert write(store, table).insert_only is insert_only
    spread = spark.createDataFrame(table).repartition(2)
    large = store.write_frame("r", 2, spread)
    assert large is not None
    assert large.insert_only is insert_only


def test_an_empty_delta_is_no_segment(store: SegmentStore, spark: SparkSession) -> None:
    nothing = spark.sql("SELECT 1 AS a WHERE rand() > 2")
    assert store.write_arrow("r", 1, numbers()) is None
    assert store.materialise("r", 1, nothing, expected_rows=0) is None
    assert store.write_frame("r", 1, nothing) is None
    assert data_files(store) == set()


def test_empty_files_are_left_out(store: SegmentStore, spark: SparkSession) -> None:
    df = spark.range(0, 4, numPartitions=4).selectExpr("CAST(id AS INT) AS a").where("a = 2")
    segment = store.write_frame("r", 7, df)
    assert segment is not None
    assert len(segment.files) == 1
    assert data_files(store) == set(segment.files)
    assert segment.bytes == (store.root / segment.files[0]).stat().st_size


def test_a_segment_describes_its_files(store: SegmentStore) -> None:
    segment = write(store, numbers(1, 2, 3), epoch=42)
    (name,) = segment.files
    assert Path(name).name.startswith("000000000042-")
    assert (segment.lo, segment.hi, segment.rows) == (42, 42, 3)
    assert segment.bytes == (store.root / name).stat().st_size
    assert data_files(store) == {name}
    store.verify(segment)


@pytest.mark.parametrize(("expected", "parts"), [(10, 1), (11, 2)])
def test_the_limit_decides_who_writes(
    tmp_path: Path, spark: SparkSession, expected: int, parts: int
) -> None:
    store = SegmentStore(tmp_path, spark, collect_limit=10)
    segment = store.materialise("r", 1, spark.range(0, 10, numPartitions=2), expected)
    assert segment is not None
    assert len(segment.files) == parts


def test_a_frame_without_segments_is_empty_and_known_to_be(
    store: SegmentStore, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = store.frame(f"`a b` INT NOT NULL, s STRUCT<`x y`: INT>, {WEIGHT} BIGINT", [])
    assert frame.collect() == []
    assert frame.columns == ["a b", "s", WEIGHT]
    assert [field.nullable for field in frame.schema] == [True, True, True]
    # Known to the optimiser, so that whatever hangs on it costs nothing either.
    frame.explain()
    assert "LocalTableScan <empty>" in capsys.readouterr().out


def test_making_a_frame_runs_no_job(store: SegmentStore, spark: SparkSession) -> None:
    segments = [write(store, numbers(n), epoch=n) for n in range(1, 50)]
    context = spark.sparkContext
    context.setJobGroup("frame", "making a frame")
    try:
        store.frame(PLAIN, segments)
        store.frame(PLAIN, [])
        assert list(context.statusTracker().getJobIdsForGroup("frame")) == []
    finally:
        context.setLocalProperty("spark.jobGroup.id", "")


def test_relations_with_awkward_names_do_not_mix(store: SegmentStore) -> None:
    names = ["r", "R", "r ", "../r", "r/../r", '"r"', "`r`", "ŕ", "*", "", "名"]
    segments = [store.write_arrow(name, 1, numbers(at)) for at, name in enumerate(names)]
    folders = {Path(s.files[0]).parent for s in segments if s}
    assert len(folders) == len(names)
    assert all(Path(*folder.parts[:1]) == Path("data") for folder in folders)
    for at, segment in enumerate(segments):
        assert segment is not None
        assert rows(store, segment) == [(at, 1)]


def test_a_missing_file_is_named(store: SegmentStore) -> None:
    segment = write(store, numbers(1))
    path = store.root / segment.files[0]
    path.unlink()
    for use in (
        lambda: store.verify(segment),
        lambda: store.frame(PLAIN, [segment]),
        lambda: compact(store, "r", 1, PLAIN, [segment, segment]),
    ):
        with pytest.raises(SegmentMissing) as caught:
            use()
        assert caught.value.path == str(path)


def test_a_flipped_bit_is_found_anywhere(store: SegmentStore) -> None:
    segment = write(store, numbers(*range(100)))
    path = store.root / segment.files[0]
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with pytest.raises(SegmentCorrupt, match="checksum"):
            store.verify(segment)
    path.write_bytes(good[:-1])
    with pytest.raises(SegmentCorrupt):
        store.verify(segment)
    path.write_bytes(good)
    store.verify(segment)


def test_files_that_spark_wrote_are_verified_too(store: SegmentStore, spark: SparkSession) -> None:
    segment = store.write_frame("r", 1, spark.range(10))
    assert segment is not None
    store.verify(segment)
    with (store.root / segment.files[-1]).open("ab") as file:
        file.write(b"x")
    with pytest.raises(SegmentCorrupt):
        store.verify(segment)


def test_a_damaged_file_stops_a_concatenation(store: SegmentStore) -> None:
    good, bad = write(store, numbers(1)), write(store, numbers(2), epoch=2)
    (store.root / bad.files[0]).write_bytes(b"PAR1 not really")
    before = data_files(store)
    with pytest.raises(SegmentCorrupt):
        compact(store, "r", 2, PLAIN, [good, bad])
    assert data_files(store) == before


def test_a_full_disk_leaves_nothing_behind(
    store: SegmentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    write(store, numbers(1))
    before = data_files(store)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnwritable, match="No space left"):
        store.write_arrow("r", 2, numbers(2))
    assert data_files(store) == before


def test_spark_on_a_store_that_cannot_be_written(
    store: SegmentStore, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, numbers(1))

    def replace_folder_by_file(point: str) -> None:
        if point != "segment.before_write":
            return
        folder = next((store.root / "data").iterdir())
        folder.rename(folder.with_name("away"))
        folder.write_text(point)

    monkeypatch.setattr(durable_files, "failpoint", replace_folder_by_file)
    with pytest.raises(StoreUnwritable):
        store.write_frame("r", 2, spark.range(10))


@pytest.mark.parametrize("collect_limit", [0, 100])
def test_an_error_of_the_query_stays_what_it_is(
    tmp_path: Path, spark: SparkSession, collect_limit: int
) -> None:
    store = SegmentStore(tmp_path, spark, collect_limit=collect_limit)
    broken = spark.range(10).selectExpr("1 DIV (id - 5) AS a")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        store.materialise("r", 2, broken, 10)
    assert data_files(store) == set()


def test_every_file_is_synced_before_its_segment_is_returned(
    store: SegmentStore, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    fsync = os.fsync

    def spied(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", spied)
    segments = [
        store.write_arrow("small", 1, numbers(1)),
        store.write_frame("large", 1, spark.range(0, 10, numPartitions=2)),
    ]
    for segment in segments:
        assert segment is not None
        paths = [store.root / name for name in segment.files]
        folders = [folder for path in paths for folder in path.parents][:3]
        for path in (*paths, *folders):
            assert path.stat().st_ino in synced


def test_concatenation_keeps_rows_as_they_are(store: SegmentStore) -> None:
    parts = [
        write(store, numbers(1, 1, weights=[1, -1]), epoch=3),
        write(store, numbers(1, weights=[1]), epoch=5),
    ]
    merged = compact(store, "r", 9, PLAIN, parts)
    assert merged is not None
    assert rows(store, merged) == [(1, -1), (1, 1), (1, 1)]
    assert (merged.lo, merged.hi, merged.rows, merged.insert_only) == (3, 5, 3, False)
    assert Path(merged.files[0]).name.startswith("000000000009-")
    store.verify(merged)


def test_concatenation_adds_columns_that_came_later(store: SegmentStore) -> None:
    old = write(store, pa.table({"A": pa.array([1], pa.int32())}))
    merged = compact(store, "r", 1, f"a INT, b STRING, {WEIGHT} BIGINT", [old])
    assert merged is not None
    frame = store.frame(f"a INT, b STRING, {WEIGHT} BIGINT", [merged])
    assert [tuple(row) for row in frame.collect()] == [(1, None, 1)]


def test_concatenation_makes_full_row_groups(
    store: SegmentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laminar.store.parquet.ROW_GROUP", 100)
    parts = [write(store, numbers(*range(30)), epoch=at) for at in range(1, 11)]
    merged = compact(store, "r", 10, PLAIN, parts)
    assert merged is not None
    assert merged.rows == 300
    assert pq.ParquetFile(store.root / merged.files[0]).num_row_groups <= 6


def consolidate(df: DataFrame) -> DataFrame:
    return df.groupBy("a").agg({WEIGHT: "sum"}).toDF("a", WEIGHT).where(f"{WEIGHT} <> 0")


def test_consolidation_adds_weights_up(store: SegmentStore) -> None:
    parts = [
        write(store, numbers(1, 2, weights=[1, 1]), epoch=1),
        write(store, numbers(1, 3, weights=[-1, 2]), epoch=2),
    ]
    merged = compact(store, "r", 2, PLAIN, parts, consolidate)
    assert merged is not None
    assert rows(store, merged) == [(2, 1), (3, 2)]
    assert (merged.lo, merged.hi, merged.rows, merged.insert_only) == (1, 2, 2, True)


def test_what_cancels_out_is_no_segment(store: SegmentStore) -> None:
    parts = [
        write(store, numbers(1, weights=[1]), epoch=1),
        write(store, numbers(1, weights=[-1]), epoch=2),
    ]
    assert compact(store, "r", 2, PLAIN, parts, consolidate) is None
