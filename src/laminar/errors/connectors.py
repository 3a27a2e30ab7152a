"""What can be wrong with a source, and what can go wrong while it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from laminar.errors.base import LaminarError, did_you_mean, nearest
from laminar.errors.secrets import HIDDEN, is_secret, shown


class SourceError(LaminarError):
    """A source could not be set up or could not be read.

    Catch this to handle every error of the connectors in one place. Where a step or `drain` raises
    it, the epoch took what the other sources have: that is committed, and is the error's `report`.
    """

    code: ClassVar[str] = "LMR-8000"
    report: Any = None
    """The epoch that was committed without the source; None if there was none."""


class UnknownConnector(SourceError):
    """No connector of that name is registered.

    Correct the name; the hint holds the nearest one. A connector of your own is made known with
    `register_source` or `register_sink`.
    """

    code: ClassVar[str] = "LMR-8001"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(
            f'unknown connector: "{name}"',
            detail=f"there are: {', '.join(names)}" if names else "",
            hint=did_you_mean(name, names),
        )
        self.name = name
        self.suggestion: str | None = nearest(name, names)


class UnknownOption(SourceError):
    """A connector was given an option that it does not have.

    No option is ever ignored. Correct the name, the hint holds the nearest one, or remove it.
    """

    code: ClassVar[str] = "LMR-8002"

    def __init__(self, connector: str, option: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(
            f'connector "{connector}" has no option "{option}"',
            detail=f"its options here are: {', '.join(names)}" if names else "it takes none",
            hint=did_you_mean(option, names),
        )
        self.connector = connector
        self.option = option
        self.suggestion: str | None = nearest(option, names)


class MissingOption(SourceError):
    """A connector was not given an option that it cannot do without.

    Add the option; the detail says what it takes.
    """

    code: ClassVar[str] = "LMR-8003"

    def __init__(
        self, connector: str, option: str, expected: str = "", given: Iterable[str] = ()
    ) -> None:
        meant = nearest(option, given)
        super().__init__(
            f'connector "{connector}" needs the option "{option}"',
            detail=f"it takes {expected}" if expected else "",
            hint=f'"{meant}" was given; did you mean "{option}"?' if meant else "",
        )
        self.connector = connector
        self.option = option


class BadOption(SourceError):
    """An option has a value that its connector cannot work with.

    The message names the option and its value, the hint what it takes.
    """

    code: ClassVar[str] = "LMR-8004"

    def __init__(self, connector: str, option: str, value: object, expected: str) -> None:
        super().__init__(
            f'option "{option}" of connector "{connector}" cannot be'
            f" {HIDDEN if is_secret(option) else shown(repr(value))}",
            hint=f"it takes {expected}",
        )
        self.connector = connector
        self.option = option
        self.value = value


class ReferenceNotFound(SourceError):
    """An option says `${env:NAME}` or `${file:/path}`, and there is no such variable or file.

    Set the variable in the environment of the process that has the database open, or write the file
    where that process can read it. Nothing of either is stored: they are read whenever a connector
    is built.
    """

    code: ClassVar[str] = "LMR-8040"

    def __init__(self, connector: str, option: str, reference: str, reason: str) -> None:
        super().__init__(
            f'option "{option}" of connector "{connector}" needs {reference}, which is not there',
            detail=reason,
        )
        self.connector = connector
        self.option = option
        self.reference = reference


class BadReference(SourceError):
    """An option refers to something in `${...}` in a way that is not known.

    Write `${env:NAME}` for a variable of the environment, `${file:/path}` for a file, or `$${` for
    a plain `${`.
    """

    code: ClassVar[str] = "LMR-8041"

    def __init__(self, connector: str, option: str, reference: str) -> None:
        super().__init__(
            f'option "{option}" of connector "{connector}" refers to {reference}',
            hint="write ${env:NAME}, ${file:/path}, or $${ for a plain ${",
        )
        self.connector = connector
        self.option = option
        self.reference = reference


class SourceReadFailed(SourceError):
    """What a source should deliver is not there, or not as it was when it was first read.

    The detail says what was found. Put it back as it was: rows that were delivered once must be
    the same when they are read again.
    """

    code: ClassVar[str] = "LMR-8005"

    def __init__(
        self,
        source: str,
        reason: object,
        *,
        file: str = "",
        line: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(
            f'source "{source}" cannot be read{_place(file, line)}', detail=str(reason), hint=hint
        )
        self.source = source
        self.file = file
        self.line = line


class RowDoesNotFit(SourceError):
    """A row of a source is not what the source's schema declares.

    The message names the file and the line, the detail shows the row. Correct the row, or declare
    the column as what it really holds. Nothing of the batch was taken.
    """

    code: ClassVar[str] = "LMR-8006"

    def __init__(
        self,
        source: str,
        reason: str,
        *,
        file: str = "",
        line: int | None = None,
        text: str | None = None,
    ) -> None:
        super().__init__(
            f'a row of source "{source}" does not fit{_place(file, line)}',
            detail=reason if text is None else f"{reason}; the line is: {text}",
            hint="correct the row, or declare the column as what it holds",
        )
        self.source = source
        self.reason = reason
        self.file = file
        self.line = line
        self.text = text


class SinkBehind(SourceError):
    """A statement would lose what a sink has still to be told, and the sink does not take it.

    What a sink has missed is worked out from rows that the statement would keep in another way. It
    waited for the sink as long as `laminar.sink_timeout_ms` says, or the sink fails or is stopped;
    nothing was changed. Mend the sink (the detail says what is wrong), `RESUME SINK` it, or drop
    it, and say the statement again.
    """

    code: ClassVar[str] = "LMR-8020"

    def __init__(self, sink: str, what: str, lag: int, state: str, reason: str) -> None:
        super().__init__(
            f'the sink "{sink}" has still to be told what {what} would lose',
            detail=f"it is {state}, {lag} epochs behind" + (f": {reason}" if reason else ""),
            hint=f"mend and RESUME SINK {sink}, or drop it, and say it again",
        )
        self.sink = sink
        self.lag = lag


class SinkHolds(SourceError):
    """No epoch was run, because a sink is as far behind as it may be.

    It was declared with `on_lag = 'hold'`: epochs wait for it, so that it misses none. While the
    database runs by itself they go on when it has taken some; a call waits for a moment, and then
    gets this error. Nothing was taken or changed.
    """

    code: ClassVar[str] = "LMR-8021"

    def __init__(self, sink: str, lag: int, state: str, reason: str) -> None:
        super().__init__(
            f'epochs wait for the sink "{sink}", which is {lag} epochs behind',
            detail=f"it is {state}" + (f": {reason}" if reason else ""),
            hint=f"mend the sink, or ALTER SINK {sink} SET (on_lag = 'suspend')",
        )
        self.sink = sink
        self.lag = lag


def _place(file: str, line: int | None) -> str:
    if not file:
        return ""
    return f": {file}" if line is None else f": {file}, line {line}"
