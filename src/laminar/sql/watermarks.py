"""What `WATERMARK FOR ts AS ts - INTERVAL '5' SECOND` says: a column, and how late it may be."""

from __future__ import annotations

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.intervals import micros, take_interval
from laminar.sql.statements import Watermark
from laminar.sql.tokens import tokenize

_FORM = "write it as ts - INTERVAL '5' SECOND"


def delay_of(watermark: Watermark) -> int:
    """Return how many microseconds a source's watermark stays behind its largest event time."""
    text = watermark.expression_text
    cursor = Cursor(text, tokenize(text))
    refused = NotSupported(f"the watermark {text}", _FORM)
    if cursor.next().value.casefold() != watermark.column.casefold():
        raise refused
    if cursor.done():
        return 0
    if not cursor.accept("-") or not cursor.looks_at("INTERVAL"):
        raise refused
    delay = micros(take_interval(cursor))
    if not cursor.done() or delay < 0:
        raise refused
    return delay
