from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.errors import InvalidSchema
from laminar.model import Field, Schema

SCALARS = ["int", "bigint", "string", "double", "boolean", "date", "timestamp", "decimal(38,18)"]
TYPES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(st.sampled_from(SCALARS), inner).map(lambda kv: f"map<{kv[0]},{kv[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: f"struct<{','.join(f'f{n}:{t}' for n, t in enumerate(types))}>"
        ),
    ),
    max_leaves=5,
)


def test_columns_are_split_at_top_level_commas_only() -> None:
    schema = Schema.parse(
        "symbol STRING, price DECIMAL(10,2), tags ARRAY<STRING>, s STRUCT<a: INT, b: STRING>"
    )
    assert schema.names == ("symbol", "price", "tags", "s")
    assert [field.type for field in schema] == [
        "string",
        "decimal(10,2)",
        "array<string>",
        "struct<a:int,b:string>",
    ]


@pytest.mark.parametrize(
    ("spelled", "normal"),
    [
        ("INTEGER", "int"),
        ("long", "bigint"),
        ("VARCHAR(20)", "string"),
        ("char( 3 )", "string"),
        ("text", "string"),
        ("NUMERIC(12, 4)", "decimal(12,4)"),
        ("dec(5)", "decimal(5,0)"),
        ("decimal", "decimal(10,0)"),
        ("BOOL", "boolean"),
        ("real", "float"),
        ("byte", "tinyint"),
        ("SHORT", "smallint"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("INTERVAL  DAY TO SECOND", "interval day to second"),
        ("time", "time(6)"),
        ("STRING COLLATE UTF8_LCASE", "string collate utf8_lcase"),
        ("ARRAY< LONG >", "array<bigint>"),
        ("Map<Text, Array<Numeric>>", "map<string,array<decimal(10,0)>>"),
        ("struct<Price: dec(3,1) NOT NULL, x bool>", "struct<Price:decimal(3,1),x:boolean>"),
        ("struct<`a b`: int>", "struct<`a b`:int>"),
        ("struct<>", "struct<>"),
    ],
)
def test_types_have_one_spelling(spelled: str, normal: str) -> None:
    assert Field("c", spelled).type == normal
    assert Field("c", normal).type == normal


def test_not_null_is_read_and_written() -> None:
    schema = Schema.parse("id BIGINT not  NULL, `odd name` STRING, c: int")
    assert [field.nullable for field in schema] == [False, True, True]
    assert schema.ddl() == "id bigint NOT NULL, `odd name` string, c int"


def test_backticks_hide_what_would_end_a_column() -> None:
    schema = Schema.parse("`a, b` INT, `x<y` STRING, `c``d` STRUCT<`e``f`: INT>")
    assert schema.names == ("a, b", "x<y", "c`d")
    assert schema.fields[2].type == "struct<`e``f`:int>"
    assert Schema.parse(schema.ddl()) == schema


def test_columns_are_found_without_regard_to_case() -> None:
    schema = Schema.parse("Price DOUBLE")
    assert schema.field("PRICE") == Field("Price", "double")
    assert "price" in schema
    assert "cost" not in schema
    assert schema.field("cost") is None
    assert len(schema) == 1


@pytest.mark.parametrize(
    "ddl",
    [
        "a INT, A STRING",
        "a",
        "a INT,",
        "a INT, , b INT",
        "a ARRAY<INT",
        "a INT>",
        "a MAP<INT>",
        "a STRUCT<b>",
        "a INTT",
        "a DECIMAL(39,0)",
        "a DECIMAL(4,5)",
        "a DECIMAL(x)",
        "a INT(3)",
        "`a INT",
    ],
)
def test_a_bad_schema_is_refused(ddl: str) -> None:
    with pytest.raises(InvalidSchema):
        Schema.parse(ddl)


def test_no_columns_is_a_schema() -> None:
    assert Schema.parse("  ") == Schema()
    assert Schema.of(None) is None


@given(st.lists(st.tuples(TYPES, st.booleans()), max_size=6))
def test_what_is_written_can_be_read_back(columns: list[tuple[str, bool]]) -> None:
    schema = Schema(tuple(Field(f"c{n}", t, null) for n, (t, null) in enumerate(columns)))
    assert Schema.parse(schema.ddl()) == schema
    assert Schema.parse(schema.ddl().upper()).ddl().upper() == schema.ddl().upper()


@pytest.mark.parametrize("kind", ["CHAR(3)", "varchar (20)", "ARRAY<CHARACTER(2)>"])
def test_a_length_that_nobody_would_look_after_is_refused(kind: str) -> None:
    with pytest.raises(InvalidSchema, match="CREATE TABLE"):
        Schema.of(f"id INT, name {kind}")
    assert Schema.of("`char(3)` STRING") == Schema((Field("char(3)", "string"),))
