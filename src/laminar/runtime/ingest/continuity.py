"""The law of every source: an epoch takes its rows from where the last one ended.

Each epoch passes here, one that runs now as one that is replayed, before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from laminar.errors import BadOffset, SourceGap
from laminar.model.row_counts import Skipped
from laminar.model.trace import Range


def require_continuous(
    epoch: int,
    taken: Iterable[Range],
    committed: Mapping[str, Any],
    skipped: Mapping[str, Skipped] | None,
    dropping: Collection[str] = (),
) -> None:
    """Raise if a range does not follow what was committed, or is in flight before it.

    Args:
        epoch: the one that takes them.
        taken: its ranges.
        committed: source -> where its last range ended.
        skipped: source -> what was let go before its range; None if the epoch was logged by a
            version that did not say so.
        dropping: sources that may let rows go.

    Raises:
        SourceGap: rows would be lost, or come twice.
    """
    for each in taken:
        if skipped is None and each.table in dropping:
            continue
        gap = (skipped or {}).get(each.table)
        begins, last = each.start if gap is None else gap.after, committed.get(each.table)
        if not same_offset(begins, last):
            raise SourceGap(each.table, epoch, begins, last)


def same_offset(one: Any, other: Any) -> bool:
    """Whether two offsets are the same JSON value: 1 is not true, nor is it 1.0."""
    return _text(one) == _text(other)


def checked_offset(source: str, start: Any, end: Any) -> Any:
    """Return what a connector said it has come to, as it will be read from the log.

    None if that is where it was: then there is nothing new.

    Raises:
        BadOffset: it is no JSON value, or one before `start`.
    """
    if end is None:
        return None
    try:
        found = json.loads(json.dumps(end, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadOffset(source, repr(end)[:200], str(error)) from error
    if _is_number(start) and _is_number(found) and found < start:
        raise BadOffset(source, found, f"it is before {start}, which it was asked to follow")
    return None if same_offset(start, found) else found


def _is_number(offset: Any) -> bool:
    return isinstance(offset, int | float) and not isinstance(offset, bool)


def _text(offset: Any) -> str:
    return json.dumps(offset, sort_keys=True)
