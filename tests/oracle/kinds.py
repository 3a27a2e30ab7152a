"""Types of columns, each with values that tend to go wrong: limits, -0.0, NaN, summer time."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A type, and literals of it as Spark reads them.

    `kept` is what a table of Spark's own keeps of a literal, `told` what the database tells Python
    of a value, `plain` are literals as queries compare with them.
    """

    ddl: str
    literals: tuple[str, ...]
    kept: str = "{0}"
    told: str = "{0}"
    plain: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What Spark notes of a column of it, if it is a text of a length or has one inside."""
        return self.ddl.lower().replace(": ", ":") if "CHAR(" in self.ddl else ""


def _cast(ddl: str, *texts: str) -> tuple[str, ...]:
    return tuple(f"CAST('{text}' AS {ddl})" for text in texts)


def _plain(ddl: str, *texts: str) -> Kind:
    return Kind(ddl, _cast(ddl, *texts))


def _kept(ddl: str) -> str:
    """Return what is kept of a text that need not have the length that is declared."""
    length = ddl[ddl.index("(") + 1 : -1]
    cut = f"RPAD(RTRIM({{0}}), {length})"
    return cut if ddl.startswith("CHAR") else f"IF(LENGTH({{0}}) > {length}, {cut}, {{0}})"


def _text(ddl: str, *texts: str) -> Kind:
    literals = tuple(f"'{text}'" for text in texts)
    return Kind(ddl, literals, kept=_kept(ddl), plain=(*literals, "'abcdef'"))


def _months(ddl: str, *literals: str) -> Kind:
    """Return a type of intervals of months, or with some inside; they are told as numbers."""
    months = re.sub(r"INTERVAL (\w+)( TO MONTH)?", "INTERVAL MONTH", ddl)
    numbers = months.replace("INTERVAL MONTH", "INT")
    return Kind(ddl, literals, told=f"CAST(CAST({{0}} AS {months}) AS {numbers})")


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
    "varchar": _text("VARCHAR(3)", "", "a", "b", "a ", "abc", "a     "),
    "char": _text("CHAR(3)", "", "a", "A", "b", "a ", "ab", "abc", "a     "),
}

CHARS = {
    **TEXTS,
    "longer": _text("CHAR(5)", "", "a", "ab", "abc", "abc  ", "abcd", "ä"),
    "chars": Kind(
        "ARRAY<CHAR(3)>",
        ("ARRAY()", "ARRAY('a')", "ARRAY('a  ')", "ARRAY('ab', NULL)", "ARRAY('', 'abc')"),
        kept=f"TRANSFORM({{0}}, e -> {_kept('CHAR(3)').format('e')})",
    ),
    "char_struct": Kind(
        "STRUCT<a: INT, c: CHAR(2)>",
        ("NAMED_STRUCT('a', 1, 'c', 'x')", "NAMED_STRUCT('a', 1, 'c', 'x ')",
         "NAMED_STRUCT('a', 2, 'c', NULL)"),
        kept="IF({0} IS NULL, NULL,"
        f" NAMED_STRUCT('a', {{0}}.a, 'c', {_kept('CHAR(2)').format('{0}.c')}))",
    ),
    "char_map": Kind(
        "MAP<CHAR(2), VARCHAR(3)>",
        ("MAP()", "MAP('a', 'x')", "MAP('a ', 'x  ')", "MAP('a', NULL, 'ab', 'xyz   ')"),
        kept=f"TRANSFORM_VALUES(TRANSFORM_KEYS({{0}}, (k, v) -> {_kept('CHAR(2)').format('k')}),"
        f" (k, v) -> {_kept('VARCHAR(3)').format('v')})",
    ),
}  # fmt: skip
"""Texts of a length, which are cut or filled up, beside each other and inside of other types."""

TIMES = {
    "date": _plain("DATE", "1969-12-31", "1582-10-04", "2024-03-31", "2024-10-27", "9999-12-31"),
    "instant": Kind(
        "TIMESTAMP",
        _cast(
            "TIMESTAMP", "1969-12-31 23:59:59.999999", "2024-03-31 01:30:00", "2024-03-31 02:30:00",
            "2024-10-27 01:30:00", "2024-11-03 01:30:00", "1901-01-01 00:00:00",
            "2024-10-27T01:30:00Z",
        ),
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
    ),
}

INTERVALS = {
    "days": OTHERS["days"],
    "hours": Kind("INTERVAL HOUR", tuple(f"INTERVAL '{n}' HOUR" for n in (0, 1, 24, -1))),
    "months": _months(
        "INTERVAL YEAR TO MONTH", "INTERVAL '0' MONTH", "INTERVAL '12' MONTH", "INTERVAL '1' YEAR",
        "INTERVAL '-1-2' YEAR TO MONTH", "INTERVAL '2147483647' MONTH",
    ),
    "month": _months("INTERVAL MONTH", *(f"INTERVAL '{n}' MONTH" for n in (0, 1, 12, 24, -5))),
    "years": _months("INTERVAL YEAR", *(f"INTERVAL '{n}' YEAR" for n in (0, 1, 2, -178956970))),
    "month_array": _months(
        "ARRAY<INTERVAL YEAR TO MONTH>", "ARRAY()", "ARRAY(INTERVAL '1' YEAR)",
        "ARRAY(INTERVAL '12' MONTH)", "ARRAY(INTERVAL '1' MONTH, NULL)",
    ),
    "month_struct": _months(
        "STRUCT<m: INTERVAL MONTH, y: ARRAY<INTERVAL YEAR>>",
        "NAMED_STRUCT('m', INTERVAL '1' MONTH, 'y', ARRAY(INTERVAL '1' YEAR))",
        "NAMED_STRUCT('m', INTERVAL '12' MONTH, 'y', ARRAY(INTERVAL '1' YEAR, NULL))",
        "NAMED_STRUCT('m', NULL, 'y', NULL)",
    ),
    "month_map": _months(
        "MAP<INTERVAL MONTH, INTERVAL YEAR>", "MAP()",
        "MAP(INTERVAL '1' MONTH, INTERVAL '1' YEAR)", "MAP(INTERVAL '12' MONTH, NULL)",
    ),
}  # fmt: skip
"""Of months, which Python has no type for, and of days, beside each other and inside."""

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
    ),
}

COLLATED = {
    "lcase": _plain("STRING COLLATE UTF8_LCASE", "", "a", "A", "b", "B", "ab", "aB"),
    "unicode": _plain("STRING COLLATE UNICODE_CI", "", "a", "A", "ä", "Ä", "b"),
    "plain": _plain("STRING", "", "a", "A", "b"),
    "count": _plain("INT", "0", "1", "2"),
}
"""Which spelling a group shows is ours to say: these are compared without regard to it."""

KINDS = NUMBERS | CHARS | TIMES | OTHERS | INTERVALS | NESTED | VARIANTS
ALL_KINDS = KINDS | COLLATED

TIME_OF_DAY = ("time",)
"""Kinds that Spark 4.1 has not got."""
