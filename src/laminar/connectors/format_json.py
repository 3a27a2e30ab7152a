"""JSON lines: one object per line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from laminar.connectors.arrow_types import declared, is_clock_type, leaf_types

_OPEN, _CLOSE, _NEWLINE = b"{}\n"
_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 16, 1 << 20
_BLOCKS_PER_CORE = 2
_ALONE = 1 << 24
"""Up to so many bytes are parsed by one thread: an epoch is running on the other cores."""


def read_json(path: Path, schema: pa.Schema) -> pa.Table | None:
    """Return the rows of a file; None if Spark must decide what they are."""
    layout = _as_parsed(schema)
    data = path.read_bytes()
    lines = _lines(data)
    if layout is None or lines is None:
        return None
    table = _parse(data, layout)
    # More rows than lines: two objects in one line, of which Spark takes the first.
    if table is None or table.num_rows != lines:
        return None
    return declared(table, schema, is_clock_type)


def _as_parsed(schema: pa.Schema) -> pa.Schema | None:
    fields = []
    for field in schema:
        if is_clock_type(field.type):
            fields.append(field.with_type(pa.string()))
        elif all(_read_alike(leaf) for leaf in leaf_types(field.type)) and not _has_map(field.type):
            fields.append(field)
        else:
            return None
    return pa.schema(fields)


def _read_alike(kind: pa.DataType) -> bool:
    # Spark decodes Base64 into BINARY, Arrow takes the text; dates inside nested types would
    # have to be taken apart again.
    return not (pa.types.is_binary(kind) or is_clock_type(kind))


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(
        _has_map(kind.field(index).type) for index in range(kind.num_fields)
    )


def _lines(data: bytes) -> int | None:
    """Return how many lines there are; None unless each is `{...}` and all is UTF-8.

    Arrow must not see other lines: it takes a `null` for a row, and crashes the process if a
    block begins with one (apache/arrow issue 47409).
    """
    if not data:
        return 0
    if data[0] != _OPEN or not data.endswith((b"}", b"}\n")) or not _is_utf8(data):
        return None
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes[:-1] == _NEWLINE)
    if (codes[ends + 1] == _OPEN).all() and (codes[ends - 1] == _CLOSE).all():
        return int(ends.size) + 1
    return None


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parse(data: bytes, layout: pa.Schema) -> pa.Table | None:
    if not data:
        return layout.empty_table()
    blocks = _BLOCKS_PER_CORE * (os.cpu_count() or 1)
    share = min(max(len(data) // blocks, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    # The second size is for a line that is longer than the first.
    for block_size in (share, len(data) + 1):
        try:
            return pj.read_json(
                pa.BufferReader(data),
                read_options=pj.ReadOptions(block_size=block_size, use_threads=len(data) > _ALONE),
                parse_options=pj.ParseOptions(
                    explicit_schema=layout, unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                return None
        except pa.ArrowNotImplementedError:
            return None
    return None
