"""Types of columns, each with values that tend to go wrong: limits, -0.0, NaN, summer time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A type, and literals of it as Spark reads them.

    `shown` is how a column of it is compared: as it is, or as what Python can hold.
    """

    ddl: str
    literals: tuple[str, ...]
    shown: str = "{0}"


def _cast(ddl: str, *texts: str) -> tuple[str, ...]:
    return tuple(f"CAST('{text}' AS {ddl})" for text in texts)


def _plain(ddl: str, *texts: str) -> Kind:
    return Kind(ddl, _cast(ddl, *texts))


NUMBERS = {
    "tiny": _plain("TINYINT", "0", "1", "2", "-128", "127"),
    "small": _plain("SMALLINT", "0", "1", "2", "-32768", "32767"),
    "int": _plain("INT", "0", "1", "2", "3", "-2147483648", "2147483647"),
    "long": _plain(
        "BIGINT", "0", "1", "2", "9007199254740992", "9007199254740993",
        "-9223372036854775808", "9223372036854775807",
    ),
    "float": _plain("FLOAT", "0", "-0.0", "1", "2", "0.1", "NaN", "Infinity", "3.4E38"),
    "double": _plain(
        "DOUBLE", "0", "-0.0", "1", "2", "0.1", "NaN", "Infinity", "-Infinity",
        "9007199254740992", "1E300",
    ),
    "money": _plain("DECIMAL(8,2)", "0", "1", "2", "-1.50", "999999.99"),
    "wide": _plain(
        "DECIMAL(38,10)", "0", "1", "2", "0.1", "9999999999999999999999999999.9999999999"
    ),
    "digits": _plain("STRING", "0", "1", "01", "2", "2.0", "-0", "9007199254740993"),
}  # fmt: skip
"""What compares with each other; `digits` are strings that are numbers."""

TEXTS = {
    "text": Kind(
        "STRING", (*_cast("STRING", "", "a", "A", "ä", "a ", "b", "ab", "1"), "REPEAT('a', 40000)")
    ),
    "varchar": _plain("VARCHAR(3)", "", "a", "b", "a ", "abc"),
}

TIMES = {
    "date": _plain("DATE", "1969-12-31", "1582-10-04", "2024-03-31", "2024-10-27", "9999-12-31"),
    "instant": Kind(
        "TIMESTAMP",
        _cast(
            "TIMESTAMP", "1969-12-31 23:59:59.999999", "2024-03-31 01:30:00", "2024-03-31 02:30:00",
            "2024-10-27 01:30:00", "2024-11-03 01:30:00", "1901-01-01 00:00:00",
            "2024-10-27T01:30:00Z",
        ),
        "UNIX_MICROS({0})",
    ),
    "local": _plain(
        "TIMESTAMP_NTZ", "1969-12-31 23:59:59.999999", "2024-03-31 02:30:00",
        "2024-10-27 01:30:00", "0001-01-01 00:00:00", "2024-03-31 00:00:00",
    ),
}  # fmt: skip

OTHERS = {
    "time": _plain("TIME", "00:00:00", "23:59:59.999999", "12:30:00"),
    "bool": _plain("BOOLEAN", "true", "false"),
    "binary": Kind("BINARY", ("X''", "X'00'", "X'0000'", "X'61'")),
    "days": Kind(
        "INTERVAL DAY TO SECOND",
        ("INTERVAL '0' DAY", "INTERVAL '1' DAY", "INTERVAL '24' HOUR", "INTERVAL '-1' SECOND"),
        "CAST({0} AS STRING)",
    ),
}

NESTED = {
    "array": Kind("ARRAY<DOUBLE>", ("ARRAY()", "ARRAY(0D)", "ARRAY(-0.0D)", "ARRAY(1D, NULL)")),
    "struct": Kind(
        "STRUCT<a: INT, b: STRING>",
        ("NAMED_STRUCT('a', 1, 'b', 'x')", "NAMED_STRUCT('a', 1, 'b', NULL)",
         "NAMED_STRUCT('a', NULL, 'b', NULL)"),
    ),
    "map": Kind("MAP<STRING, INT>", ("MAP()", "MAP('a', 1)", "MAP('a', 1, 'b', NULL)")),
}  # fmt: skip

VARIANTS = {
    "variant": Kind(
        "VARIANT",
        tuple(
            f"PARSE_JSON('{text}')" for text in ("1", "1.0", "null", "[1, null]", '{"a": {"b": 2}}')
        ),
        "TO_JSON({0}) || SCHEMA_OF_VARIANT({0})",
    ),
}

COLLATED = {
    "lcase": _plain("STRING COLLATE UTF8_LCASE", "", "a", "A", "b", "B", "ab", "aB"),
    "unicode": _plain("STRING COLLATE UNICODE_CI", "", "a", "A", "ä", "Ä", "b"),
    "plain": _plain("STRING", "", "a", "A", "b"),
    "count": _plain("INT", "0", "1", "2"),
}
"""Which spelling a group shows is ours to say: these are compared without regard to it."""

KINDS = NUMBERS | TEXTS | TIMES | OTHERS | NESTED | VARIANTS
