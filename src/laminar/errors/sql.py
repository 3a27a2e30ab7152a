"""What can be wrong with a statement, and where in its text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from laminar.errors.base import LaminarError, did_you_mean, nearest


class SqlError(LaminarError):
    """A statement could not be read, or asks for something that cannot be done.

    Catch this to handle every error of the SQL front end in one place.
    """

    code: ClassVar[str] = "LMR-3000"

    @property
    def line(self) -> int | None:
        """The line it is about, from 1; None if no place is known."""
        return self.place[0] if self.place is not None else None

    @property
    def column(self) -> int | None:
        """The column it is about, from 1; None if no place is known."""
        return self.place[1] if self.place is not None else None


class SqlSyntaxError(SqlError):
    """A statement is not written the way this SQL is written.

    The detail shows the line with the offending text underlined, the hint what would fit there.
    """

    code: ClassVar[str] = "LMR-3001"


class UnknownRelation(SqlError):
    """A statement names a table, source or view that does not exist.

    Create it first, or correct the name; the hint holds the nearest one.
    """

    code: ClassVar[str] = "LMR-3002"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(f'unknown relation: "{name}"', hint=did_you_mean(name, names))
        self.name = name
        self.suggestion: str | None = nearest(name, names)


class UnknownColumn(SqlError):
    """Something names a column that the relation does not have.

    Correct the name; the hint holds the nearest one. Names of columns ignore case.
    """

    code: ClassVar[str] = "LMR-3003"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(
            f'unknown column: "{name}"',
            detail=f"there are: {', '.join(names)}" if names else "",
            hint=did_you_mean(name, names),
        )
        self.name = name
        self.suggestion: str | None = nearest(name, names)


class RelationExists(SqlError):
    """A table, source, view or sink of that name exists already.

    Choose another name, drop the old one first, or say IF NOT EXISTS if either will do.
    """

    code: ClassVar[str] = "LMR-3004"

    def __init__(self, name: str) -> None:
        super().__init__(
            f'relation exists already: "{name}"',
            hint="choose another name, drop it first, or say IF NOT EXISTS",
        )
        self.name = name


class NotSupported(SqlError):
    """A statement, clause or option is known, but cannot be done here.

    Nothing is accepted and then ignored. The hint says what to write instead, where there is
    something.
    """

    code: ClassVar[str] = "LMR-3005"

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"not supported: {what}", hint=hint)
        self.what = what


class InvalidQuery(SqlError):
    """Spark's analyzer refused a query.

    The detail is Spark's own sentence: most often a name that does not exist, or types that do
    not go together.
    """

    code: ClassVar[str] = "LMR-3006"

    def __init__(self, message: str, detail: str = "", hint: str = "") -> None:
        super().__init__(message, detail=detail, hint=hint)


class NotIncremental(SqlError):
    """A view asks to be kept incrementally, but its query has no rule for that.

    The reason is a stable word, the detail says which part of the query it is about. Rewrite that
    part, or leave `refresh_policy` at `auto`.
    """

    code: ClassVar[str] = "LMR-3007"

    def __init__(self, view: str, reason: str, detail: str = "") -> None:
        super().__init__(
            f'view "{view}" cannot be kept incrementally: {reason}',
            detail=detail,
            hint="rewrite that part, or set refresh_policy = 'auto' to recompute what it needs",
        )
        self.view = view
        self.reason = reason


class NonDeterministic(SqlError):
    """A view calls a function whose answer is not decided by its input.

    Such a view could never be recomputed to the same rows. Store the value in a column when the
    row arrives, and read that column.
    """

    code: ClassVar[str] = "LMR-3008"

    def __init__(self, function: str, view: str, who: str = "") -> None:
        what = who or f'view "{view}"'
        super().__init__(
            f"{what} uses {function}, which is not deterministic",
            hint="store the value in a column of the source and read that column",
        )
        self.function = function
        self.view = view


class ForeignCode(SqlError):
    """A statement would run code that is no SQL: a method of Java, or a process.

    Whoever may ask a question could otherwise run any program as the user who has the database
    open. If everybody who reaches this database may do that, say so: `SET laminar.trusted_functions
    = 'reflect'`, or `all`.
    """

    code: ClassVar[str] = "LMR-3040"

    def __init__(self, what: str) -> None:
        told = _FOREIGN.get(what, f"{what} runs a method of Java")
        super().__init__(
            f"{told}, which no statement may",
            hint=f"SET laminar.trusted_functions = '{what}' trusts everybody who can ask",
        )
        self.what = what


_FOREIGN = {
    "transform": "TRANSFORM ... USING runs a process",
    "identifier": "IDENTIFIER(...) as a function may call any, such as one that runs Java",
}


class BadViewOption(SqlError):
    """A view was given an option that it does not have, or a value that the option does not take.

    Correct it; the hint holds the nearest name, or the values there are.
    """

    code: ClassVar[str] = "LMR-3009"

    def __init__(
        self,
        option: str,
        value: str | None = None,
        *,
        known: Iterable[str] = (),
        expected: str = "",
    ) -> None:
        names = tuple(known)
        if value is None:
            super().__init__(
                f'views have no option "{option}"',
                detail=f"there are: {', '.join(names)}" if names else "",
                hint=did_you_mean(option, names),
            )
        else:
            super().__init__(
                f'view option "{option}" cannot be {value!r}',
                hint=f"it takes {expected}" if expected else "",
            )
        self.option = option
        self.value = value


class AmbiguousColumns(SqlError):
    """The output of a view has two columns of one name.

    Names of columns ignore case. Give all but one of them another name with AS.
    """

    code: ClassVar[str] = "LMR-3010"

    def __init__(self, names: Iterable[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        listed = ", ".join(f'"{name}"' for name in self.names)
        super().__init__(
            f"more than one column is called {listed}",
            hint="give each column of the output its own name with AS",
        )


class UnknownFunction(SqlError):
    """A query calls a function that does not exist.

    Correct the name; the hint holds the nearest one. All functions of Spark SQL are there, and
    TUMBLE and HOP with their _START and _END.
    """

    code: ClassVar[str] = "LMR-3015"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(f'unknown function: "{name}"', hint=did_you_mean(name, names))
        self.name = name
        self.suggestion: str | None = nearest(name, names)


class UnknownSetting(SqlError):
    """SET or RESET names a setting that does not exist.

    Correct the name; the hint holds the nearest one. `SELECT * FROM laminar_system.settings` lists
    them all with what they do.
    """

    code: ClassVar[str] = "LMR-3011"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(
            f'unknown setting: "{name}"',
            detail=f"there are: {', '.join(names)}" if names else "",
            hint=did_you_mean(name, names),
        )
        self.name = name
        self.suggestion: str | None = nearest(name, names)


class BadSetting(SqlError):
    """A setting cannot have that value.

    The hint says what it takes. The setting keeps the value it had.
    """

    code: ClassVar[str] = "LMR-3012"

    def __init__(self, name: str, value: str, expected: str) -> None:
        super().__init__(f'setting "{name}" cannot be {value!r}', hint=f"it takes {expected}")
        self.name = name
        self.value = value


class DependentRefused(SqlError):
    """A view was to be replaced, but a view that reads it could not be kept.

    Its query does not fit the new columns, or fails on the new rows. Nothing was changed: both
    views are what they were. Replace the reader as well, or drop it first.
    """

    code: ClassVar[str] = "LMR-3013"

    def __init__(self, view: str, dependent: str, reason: str) -> None:
        super().__init__(
            f'cannot replace "{view}": "{dependent}" depends on it and would fail',
            detail=reason,
            hint=f'drop "{dependent}" first, or keep the columns it reads',
        )
        self.name = view
        self.dependent = dependent
