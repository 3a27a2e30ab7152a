"""What can be wrong with arguments of a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from laminar.errors.base import did_you_mean
from laminar.errors.sql import SqlError


class MissingArgument(SqlError):
    """A query has a parameter, and no argument was given for it.

    Give it in `args`: a dict for `:name`, a list for `?`.
    """

    code: ClassVar[str] = "LMR-3020"

    def __init__(self, marker: str, given: Iterable[str] = ()) -> None:
        names = tuple(given)
        close = did_you_mean(marker.removeprefix(":"), names)
        hint = "give it in args: {'name': value} for :name, [value] for ?"
        super().__init__(f"no argument is given for {marker}", hint=close or hint)
        self.marker = marker


class UnusedArgument(SqlError):
    """An argument was given that no parameter of the query asks for.

    Correct its name, or leave it out.
    """

    code: ClassVar[str] = "LMR-3021"

    def __init__(self, argument: str, wanted: Iterable[str] = ()) -> None:
        names = tuple(dict.fromkeys(wanted))
        super().__init__(
            f"nothing in the query asks for the argument {argument}",
            detail=f"it asks for: {', '.join(names)}" if names else "it has no parameters",
            hint=did_you_mean(f":{argument}", names),
        )
        self.argument = argument


class BadArgument(SqlError):
    """An argument is of a kind that SQL has no value for.

    Numbers, strings, bytes, dates, times, None, and lists and dicts of them are values.
    """

    code: ClassVar[str] = "LMR-3022"

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(
            f"the argument {argument} is no value of SQL",
            detail=reason,
            hint="give a number, text, bytes, a date or time, None, or a list or dict of these",
        )
        self.argument = argument


class ParameterInDefinition(SqlError):
    """A parameter stands in a definition, which has to mean the same for ever.

    Write the value into the statement, or read it from a table.
    """

    code: ClassVar[str] = "LMR-3023"

    def __init__(self, marker: str) -> None:
        super().__init__(
            f"a definition has a parameter: {marker}",
            hint="write the value itself, or read it from a table",
        )
        self.marker = marker
