from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from laminar.connectors import DatagenSource, SourceSpec, create_source
from laminar.errors import BadOption, MissingOption, SourceReadFailed, UnknownOption
from laminar.model.schema import Schema

from .rows import bag, by_spark

ALL = (
    "id bigint NOT NULL, name string, price double, rate float, cost decimal(9,3), ok boolean, "
    "at timestamp, day date, n int, t tinyint"
)


def datagen(schema: str, seed: int = 0, /, **options: str) -> DatagenSource:
    given = {name.replace("__", "."): value for name, value in options.items()}
    source = create_source("datagen", SourceSpec("made", Schema.parse(schema), given, seed=seed))
    assert isinstance(source, DatagenSource)
    return source


def column(spark: SparkSession, of: str, rows: int, /, **options: str) -> list[object]:
    given = {f"fields__a__{name}": value for name, value in options.items()}
    source = datagen(f"z bigint, a {of}", rows_per_batch=str(rows), **given)
    values: list[object] = by_spark(source, spark)["a"].to_pylist()
    return values


def test_batches_end_where_the_rows_do() -> None:
    source = datagen("a bigint", rows_per_batch="40", rows_total="100")
    ends, offset = [], None
    while (end := source.latest_offset(offset)) is not None:
        ends.append(end)
        offset = end
    assert ends == [40, 80, 100]
    assert datagen("a bigint").latest_offset(None) == 100_000
    assert datagen("a bigint", rows_total="0").latest_offset(None) is None


@pytest.mark.spark
def test_one_range_or_seven_give_the_same_rows(spark: SparkSession) -> None:
    source = datagen(ALL, rows_per_batch="1000")
    whole = by_spark(source, spark)
    assert whole.num_rows == 1000
    cuts = [0, 1, 2, 150, 500, 501, 999, 1000]
    parts = [by_spark(source, spark, start, end) for start, end in pairwise(cuts)]
    assert bag(pa.concat_tables(parts)) == bag(whole)
    again = datagen(ALL, rows_per_batch="7")
    assert bag(by_spark(again, spark, None, 1000)) == bag(whole)


@pytest.mark.spark
def test_the_seed_decides(spark: SparkSession) -> None:
    def rows(source: DatagenSource) -> Counter[object]:
        return bag(by_spark(source, spark, None, 50))

    assert rows(datagen(ALL, 5)) == rows(datagen(ALL, seed="5"))
    assert rows(datagen(ALL, 5)) != rows(datagen(ALL, 6))
    assert rows(datagen(ALL, 5, seed="0")) == rows(datagen(ALL))


@pytest.mark.spark
def test_rows_have_the_declared_columns(spark: SparkSession) -> None:
    frame = datagen(ALL).read(spark, None, 10)
    declared = Schema.parse(ALL)
    assert [(name, kind) for name, kind in frame.dtypes] == [
        (field.name, field.type) for field in declared
    ]


@pytest.mark.spark
def test_the_defaults_suit_the_type(spark: SparkSession) -> None:
    rows = by_spark(datagen(ALL), spark, None, 1000).to_pydict()
    assert sorted(rows["id"]) == list(range(1000))
    assert set(rows["name"]) == {f"name_{number}" for number in range(10)}
    assert all(0 <= price < 1000 and price == round(price, 2) for price in rows["price"])
    assert len(set(rows["price"])) > 900
    assert all(0 <= cost < 1000 and cost.as_tuple().exponent == -3 for cost in rows["cost"])
    assert set(rows["ok"]) == {True, False}
    assert min(rows["at"]) == datetime(2024, 1, 1, tzinfo=UTC)
    assert max(rows["at"]) == datetime(2024, 1, 1, 0, 16, 39, tzinfo=UTC)
    assert all(date(2024, 1, 1) <= day <= date(2024, 12, 31) for day in rows["day"])
    assert all(0 <= number <= 127 for number in rows["t"])
    assert None not in [value for values in rows.values() for value in values]


@pytest.mark.spark
def test_columns_do_not_follow_each_other(spark: SparkSession) -> None:
    rows = by_spark(datagen("z bigint, a int, b int"), spark, None, 1000).to_pydict()
    assert sum(a == b for a, b in zip(rows["a"], rows["b"], strict=True)) < 10


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("bigint", {"kind": "sequence", "start": "10", "step": "-5"}, {10, 5, 0, -5}),
        ("string", {"kind": "sequence", "prefix": "k"}, {"k0", "k1", "k2", "k3"}),
        (
            "date",
            {"kind": "sequence", "start": "2024-02-28"},
            {date(2024, 2, 28), date(2024, 3, 2)},
        ),
        (
            "decimal(5,2)",
            {"kind": "sequence", "start": "0.5", "step": "0.25"},
            {Decimal("0.50"), Decimal("1.25")},
        ),
        ("double", {"kind": "sequence", "step": "0.1"}, {0.0, 0.1, 0.2, 0.3}),
        (
            "timestamp",
            {"start": "2024-01-01T01:00:00+01:00", "step": "250 ms"},
            {datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 750_000, tzinfo=UTC)},
        ),
    ],
)
def test_sequences(
    spark: SparkSession, kind: str, options: dict[str, str], expected: set[object]
) -> None:
    values = column(spark, kind, 4, **options)
    assert len(set(values)) == 4
    assert expected <= set(values)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("int", {"min": "-1", "max": "1"}, {-1, 0, 1}),
        ("double", {"min": "1", "max": "1.03"}, {1.0, 1.01, 1.02}),
        ("double", {"min": "1", "max": "3", "decimals": "0"}, {1.0, 2.0}),
        ("decimal(4,2)", {"min": "99.98", "max": "100"}, {Decimal("99.98"), Decimal("99.99")}),
        ("date", {"min": "2024-01-01", "max": "2024-01-02"}, {date(2024, 1, 1), date(2024, 1, 2)}),
        ("string", {"kind": "choice", "values": "x, it's,é"}, {"x", "it's", "é"}),
        ("bigint", {"kind": "choice", "values": "7,9"}, {7, 9}),
        ("boolean", {"kind": "choice", "values": "true"}, {True}),
        (
            "timestamp",
            {"kind": "choice", "values": "2024-01-01"},
            {datetime(2024, 1, 1, tzinfo=UTC)},
        ),
        (
            "timestamp",
            {"kind": "random", "min": "2024-01-01", "max": "2024-01-01T00:00:00.000001"},
            {datetime(2024, 1, 1, tzinfo=UTC)},
        ),
        ("bigint", {"nulls": "1"}, {None}),
    ],
)
def test_values_come_from_the_range_and_fill_it(
    spark: SparkSession, kind: str, options: dict[str, str], expected: set[object]
) -> None:
    assert set(column(spark, kind, 1000, **options)) == expected


@pytest.mark.spark
def test_random_strings_and_nulls(spark: SparkSession) -> None:
    words = column(spark, "string", 1000, kind="random", length="5", nulls="0.3")
    assert 200 < words.count(None) < 400
    assert {len(str(word)) for word in words if word is not None} == {5}
    assert len(set(words)) > 500


@pytest.mark.spark
def test_times_do_not_depend_on_the_session(spark: SparkSession) -> None:
    source = datagen(
        "z bigint, at timestamp", fields__at__kind="choice", fields__at__values="2024-07-01"
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        micros = by_spark(source, spark, None, 1)["at"].cast(pa.int64()).to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    assert micros == [int(datetime(2024, 7, 1, tzinfo=UTC).timestamp()) * 1_000_000]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ("a bigint", {"fields__a__kind": "timestamp"}),
        ("a bigint", {"fields__a__kind": "random", "fields__a__max": "-1"}),
        ("a tinyint", {"fields__a__kind": "random", "fields__a__max": "128"}),
        ("a decimal(4,2)", {"fields__a__max": "1000"}),
        ("a decimal(4,2)", {"fields__a__min": "0.001"}),
        ("a bigint", {"fields__a__kind": "choice", "fields__a__values": "1,x"}),
        ("a timestamp", {"fields__a__start": "yesterday"}),
        ("a timestamp", {"fields__a__step": "1"}),
        ("a bigint NOT NULL", {"fields__a__nulls": "0.1"}),
        ("a bigint", {"fields__a__nulls": "2"}),
        ("a array<int>", {}),
        ("a bigint", {"rows_per_batch": "0"}),
    ],
)
def test_what_cannot_be_made_is_refused_before_it_is_tried(
    schema: str, options: dict[str, str]
) -> None:
    with pytest.raises(BadOption):
        datagen(schema, **options)


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [
        ("fields__b__kind", "fields.a.kind"),
        ("fields__a__stat", "fields.a.start"),
        ("row_total", "rows_total"),
        ("fields__a__values", None),
    ],
)
def test_an_option_that_does_nothing_is_refused(option: str, suggestion: str | None) -> None:
    with pytest.raises(UnknownOption) as error:
        datagen("a bigint", **{option: "random"})
    assert suggestion in (None, error.value.suggestion)


def test_a_choice_of_numbers_needs_values() -> None:
    with pytest.raises(MissingOption, match="values"):
        datagen("a bigint", fields__a__kind="choice")


@pytest.mark.parametrize("offset", ["5", -1, True, {"row": 5}])
def test_an_offset_of_something_else_is_refused(offset: object) -> None:
    with pytest.raises(SourceReadFailed):
        datagen("a bigint").latest_offset(offset)  # type: ignore[arg-type]
