"""CHAR(n) as Spark notes it in the metadata of columns: told to a frame, and read from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql import types as t

from laminar.model.char_columns import Chars, has_lengths
from laminar.model.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTE = "__CHAR_VARCHAR_TYPE_STRING"


def as_chars(frame: DataFrame, chars: Chars) -> DataFrame:
    """Return a frame some columns of which Spark compares as CHAR(n)."""
    if not chars:
        return frame
    notes = {name: {_NOTE: kind} for name, kind in chars}
    return frame.select(
        *(
            functions.col(backquoted(name)).alias(name, metadata=notes[name])
            if name in notes
            else functions.col(backquoted(name))
            for name in frame.columns
        )
    )


def chars_of(schema: t.StructType) -> Chars:
    """Return which columns Spark compares as CHAR(n), or as types that have it inside."""
    noted = ((field.name, str(field.metadata.get(_NOTE, ""))) for field in schema.fields)
    return tuple((name, kind) for name, kind in noted if has_lengths(kind))


def holds_chars(kind: t.DataType) -> bool:
    """Say whether a type has a field inside that Spark would compare as CHAR(n) once it is out."""
    match kind:
        case t.StructType():
            return bool(chars_of(kind)) or any(holds_chars(each.dataType) for each in kind.fields)
        case t.ArrayType():
            return holds_chars(kind.elementType)
        case t.MapType():
            return holds_chars(kind.keyType) or holds_chars(kind.valueType)
    return False
