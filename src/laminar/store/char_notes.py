"""CHAR(n) as Spark notes it in the metadata of columns: told to a frame, and read from one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql import types as t

from laminar.model.char_columns import Chars
from laminar.model.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTE = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR = re.compile(r"char\((\d+)\)")


def as_chars(frame: DataFrame, chars: Chars) -> DataFrame:
    """Return a frame some columns of which Spark compares as CHAR(n)."""
    if not chars:
        return frame
    notes = {name: {_NOTE: f"char({length})"} for name, length in chars}
    return frame.select(
        *(
            functions.col(backquoted(name)).alias(name, metadata=notes[name])
            if name in notes
            else functions.col(backquoted(name))
            for name in frame.columns
        )
    )


def chars_of(schema: t.StructType) -> Chars:
    """Return which columns Spark compares as CHAR(n)."""
    noted = ((f.name, _CHAR.fullmatch(str(f.metadata.get(_NOTE, "")))) for f in schema.fields)
    return tuple((name, int(found[1])) for name, found in noted if found is not None)


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
