"""What can go wrong between a connector and the epoch that takes its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from laminar.errors.connectors import SourceError


class SourceGap(SourceError):
    """An epoch was about to take rows of a source that do not follow those that it has.

    A range of a source must begin where the last committed one ended; otherwise rows would be lost,
    or come twice. Nothing was committed, and the source is read again from where it is committed.
    If this comes again, its connector does not give the same rows for the same offsets.
    """

    code: ClassVar[str] = "LMR-8010"

    def __init__(self, source: str, epoch: int, start: object, committed: object) -> None:
        super().__init__(
            f'epoch {epoch} would take source "{source}" from {_shown(start)},'
            f" but it is committed up to {_shown(committed)}",
            detail="a range begins where the last one ended; nothing was committed",
            hint="step again: it is read from where it is committed",
        )
        self.source = source
        self.epoch = epoch
        self.start = start
        self.committed = committed


class BadOffset(SourceError):
    """A connector said that it has come to an offset at which it cannot be.

    An offset is a JSON value, equal to itself after it was written and read, and never before the
    one that it follows. Nothing was read. Correct the connector.
    """

    code: ClassVar[str] = "LMR-8011"

    def __init__(self, source: str, offset: object, reason: str) -> None:
        super().__init__(
            f'the connector of "{source}" returned an offset that does not do',
            detail=f"{_shown(offset)}: {reason}",
            hint="an offset is a JSON value that follows the one it was asked for",
        )
        self.source = source
        self.offset = offset


class ConnectorHung(SourceError):
    """A call into a connector has not returned in time; it was left alone.

    The source is `away` with this reason, all others go on. A connector that can be built anew is,
    and asked again later; one that cannot is asked again once the old call has come back. Find out
    what it waits for, or set `call_timeout` of the source if it really takes so long, or
    `laminar.call_timeout_ms` for all sources.
    """

    code: ClassVar[str] = "LMR-8012"

    def __init__(self, source: str, call: str, seconds: float) -> None:
        super().__init__(
            f'the connector of "{source}" has not returned from {call} in {seconds:g} s',
            detail="the call was left alone; the thread that it blocks ends when it returns",
            hint=f"see what it waits for, or ALTER SOURCE {source} SET (call_timeout = '...')",
        )
        self.source = source
        self.call = call
        self.seconds = seconds


class SourceAway(SourceError):
    """Rows of a source are needed now, and its connector is away.

    It could not be built or reached; the detail says why. It is tried again by itself. Mend what it
    needs and say RESUME SOURCE, set its options with ALTER SOURCE, or drop it.
    """

    code: ClassVar[str] = "LMR-8013"

    def __init__(self, source: str, reason: object) -> None:
        super().__init__(
            f'source "{source}" is away',
            detail=str(reason),
            hint=f"mend it and RESUME SOURCE {source}, or ALTER SOURCE {source} SET (...)",
        )
        self.source = source
        self.reason = str(reason)


class OptionIsFixed(SourceError):
    """An option of a source was to be changed that its offsets or its rows depend on.

    What was read up to now would no longer be what its offsets say. Nothing was changed. Create
    another source with the option, and drop this one.
    """

    code: ClassVar[str] = "LMR-8014"

    def __init__(self, source: str, option: str, open_to_change: Iterable[str] = ()) -> None:
        free = ", ".join(open_to_change)
        super().__init__(
            f'option "{option}" of source "{source}" cannot be changed any more',
            detail="its offsets, or the rows between them, would mean something else",
            hint=f"create another source; to be changed are {free}" if free else "",
        )
        self.source = source
        self.option = option


class RowNotDelivered(SourceError):
    """A source takes back a row that is not there.

    Without a PRIMARY KEY, a row that is taken back has to be the same as one that was delivered
    before, down to the bytes, and as often. Nothing was committed; the source is read again from
    where it is committed. Where only keys of rows that go are known, declare the PRIMARY KEY. If
    rows were lost on the way here, create the source anew.
    """

    code: ClassVar[str] = "LMR-8015"

    def __init__(self, source: str, rows: Sequence[Mapping[str, object]]) -> None:
        super().__init__(
            f'source "{source}" takes back rows that are not there',
            detail="; ".join(str(dict(each))[:200] for each in rows),
            hint="a row is taken back as it was delivered; with a PRIMARY KEY, its key is enough",
        )
        self.source = source
        self.rows = list(rows)


class TakesNothingBack(SourceError):
    """A connector delivered weights that its source must not have.

    A connector whose rows may be taken back says so with `append_only = False`, and every weight
    is a whole number other than zero: above zero for rows that come, below for those that go.
    Nothing was read. Correct the connector.
    """

    code: ClassVar[str] = "LMR-8016"

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(
            f'source "{source}" delivered weights that do not do',
            detail=reason,
            hint="a connector that takes rows back says so with append_only = False",
        )
        self.source = source


def _shown(offset: object) -> str:
    if offset is None:
        return "its beginning"
    try:
        return json.dumps(offset)[:200]
    except (TypeError, ValueError):
        return f"a {type(offset).__name__}"
