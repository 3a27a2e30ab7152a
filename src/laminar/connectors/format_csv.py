"""CSV as RFC 4180 has it, except that a line is a row: no value goes on in the next line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from laminar.connectors.arrow_types import declared, has_spelling

_QUOTE, _NEWLINE, _RETURN = b'"\n\r'


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """What differs from one CSV file to the next."""

    header: bool = True
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be read, counted from 1."""

    number: int
    text: str
    reason: str


def read_csv(path: Path, schema: pa.Schema, dialect: CsvDialect) -> pa.Table | None:
    """Return the rows of a file; None if Spark must decide what they are."""
    data = path.read_bytes()
    if not data:
        return schema.empty_table()
    if not _lines_alike(data, dialect):
        return None
    layout = pa.schema(
        field.with_type(pa.string()) if has_spelling(field.type) else field for field in schema
    )
    table = _parse(data, layout, dialect)
    if table is None or table.schema.names != schema.names:
        return None
    return declared(table, schema, has_spelling)


def first_bad_line(path: Path) -> BadLine | None:
    """Return the first line that Spark would not refuse, but read as something else.

    An open quote or a carriage return would become two wrong rows, and text that is not UTF-8
    would be replaced.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.count(b'"') % 2:
                return BadLine(number, _shown(line), "a quote is left open at the end of the line")
            if b"\r" in line.rstrip(b"\r\n"):
                return BadLine(number, _shown(line), "a carriage return stands inside the line")
            if not line.isascii():
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return BadLine(number, _shown(line), "the line is not UTF-8")
    return None


def _shown(line: bytes) -> str:
    return line.decode(errors="backslashreplace").rstrip("\r\n")


def _parse(data: bytes, layout: pa.Schema, dialect: CsvDialect) -> pa.Table | None:
    try:
        return pv.read_csv(
            pa.BufferReader(data),
            read_options=pv.ReadOptions(column_names=None if dialect.header else layout.names),
            parse_options=pv.ParseOptions(delimiter=dialect.delimiter),
            convert_options=pv.ConvertOptions(
                column_types=layout,
                null_values=[""],
                strings_can_be_null=True,
                # Spark reads "" as NULL too.
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None


def _lines_alike(data: bytes, dialect: CsvDialect) -> bool:
    if data.count(b"\r") != data.count(b"\r\n"):
        return False
    if b'"' not in data:
        return True
    return _quotes_alike(np.frombuffer(data, np.uint8), ord(dialect.delimiter))


def _quotes_alike(codes: np.ndarray, delimiter: int) -> bool:
    """Whether each quote opens a value, closes one or is doubled, and each line closes its own."""
    at = np.flatnonzero(codes == _QUOTE)
    if (np.searchsorted(at, np.flatnonzero(codes == _NEWLINE)) % 2).any() or at.size % 2:
        return False
    # The file's own ends count as ends of lines.
    padded = np.concatenate(([_NEWLINE], codes, [_NEWLINE]))
    # Each line has an even number of them, so every other one opens. A doubled quote closes the
    # value and opens it again.
    before_opening, after_closing = padded[at[::2]], padded[at[1::2] + 2]
    edges = [delimiter, _NEWLINE, _RETURN, _QUOTE]
    return bool(np.isin(before_opening, edges).all() and np.isin(after_closing, edges).all())
