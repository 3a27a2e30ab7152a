"""Rows that come one by one: what they take, and how they become columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from laminar.errors import InvalidSetting

_VARIABLE = 32  # bytes that a text or a nested value is taken to have in a single row


def record_batch(
    rows: Sequence[Sequence[Any] | Mapping[str, Any]], schema: pa.Schema | None, name: str
) -> pa.RecordBatch:
    """Turn single rows into columns; all of them have the form of the first."""
    if schema is None:
        raise InvalidSetting("schema", None, f'the Arrow schema of "{name}", to send single rows')
    if isinstance(rows[0], Mapping):
        return pa.RecordBatch.from_pylist(list(rows), schema=schema)
    columns = zip(*rows, strict=True)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_bytes(schema: pa.Schema) -> int:
    """Estimate the memory of one row; a text is not looked at, for that would cost more."""
    total = 0
    for field in schema:
        try:
            total += max(1, field.type.bit_width // 8)
        except ValueError:
            total += _VARIABLE
    return total
