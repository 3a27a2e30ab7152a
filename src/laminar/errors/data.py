"""What can be wrong with rows that are handed in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from laminar.errors.base import LaminarError

_SHOWN = 60


class DataError(LaminarError):
    """Rows could not be taken as they are.

    Catch this to handle every error about rows in one place. Nothing of them was applied.
    """

    code: ClassVar[str] = "LMR-4000"


class RowDoesNotMatch(DataError):
    """A row is not what the columns of its relation declare.

    The message names the row (they count from 1) and the column, the detail the value and the
    type. Values are never changed to fit: correct the value, or declare the column as what it
    holds. Nothing of the rows was applied.
    """

    code: ClassVar[str] = "LMR-4001"

    def __init__(
        self,
        relation: str,
        row: int,
        column: str = "",
        value: object = None,
        expected: str = "",
        *,
        reason: str = "",
        hint: str = "",
    ) -> None:
        place = f', column "{column}"' if column else ""
        found = f"{_short(value)} ({type(value).__name__}) is not {expected}" if expected else ""
        super().__init__(
            f'row {row} of "{relation}" does not match{place}',
            detail="; ".join(part for part in (found, reason) if part),
            hint=hint,
        )
        self.relation = relation
        self.row = row
        self.column = column
        self.value = value
        self.expected = expected


class RowNotFound(DataError):
    """A row was to be deleted that is not there, or not as often as it was to be deleted.

    A deletion takes away one copy of each given row, and all columns must be equal. Nothing was
    applied.
    """

    code: ClassVar[str] = "LMR-4002"

    def __init__(self, relation: str, rows: object) -> None:
        super().__init__(
            f'rows to delete are not in "{relation}"',
            detail=f"not found: {_short(rows)}",
            hint="give every column as it is stored; NULL equals NULL here",
        )
        self.relation = relation
        self.rows = rows


class DuplicateKey(DataError):
    """A table would hold two rows with one primary key.

    Keys are compared with all rows of the table, those that wait for the next epoch included.
    Nothing was applied. Use UPDATE or MERGE to change a row that is there, or declare a SOURCE
    with a primary key: there a new row takes the place of the old one.
    """

    code: ClassVar[str] = "LMR-4003"

    def __init__(self, relation: str, key: Iterable[str], values: object) -> None:
        self.key: tuple[str, ...] = tuple(key)
        super().__init__(
            f'duplicate key in "{relation}": ({", ".join(self.key)})',
            detail=f"found more than once: {_short(values)}",
            hint="UPDATE or MERGE changes a row that is there; a SOURCE with a key replaces it",
        )
        self.relation = relation
        self.values = values


class MergeConflict(DataError):
    """MERGE would change one row of the target more than once.

    Several rows of the source match it, so the result would depend on their order. Nothing was
    applied. Make the source have one row per key, or the condition stricter.
    """

    code: ClassVar[str] = "LMR-4004"

    def __init__(self, relation: str, row: object) -> None:
        super().__init__(
            f'a row of "{relation}" is matched by more than one row of the source',
            detail=f"the row: {_short(row)}",
            hint="let the source have one row per key, or make the condition stricter",
        )
        self.relation = relation
        self.row = row


class RuleBroken(DataError):
    """A row breaks what its table declares.

    Catch this to handle checks, lengths and generated columns in one place.
    """

    code: ClassVar[str] = "LMR-4020"

    def about_row(self, place: int, row: object) -> RuleBroken:
        """Say which of the rows it is about, counted from 1, and what that holds."""
        self.row, self.values = place, row
        self.detail = f"{self.detail}; row {place}: {_short(row)}"
        return self


class CheckViolated(RuleBroken):
    """A condition that a table declares with CHECK is false for a row.

    The detail has the condition, the row and its place among those that were given. Nothing was
    applied. NULL breaks no condition: say NOT NULL as well where it should.
    """

    code: ClassVar[str] = "LMR-4021"

    def __init__(self, relation: str, constraint: str, condition: str) -> None:
        super().__init__(
            f'a row of "{relation}" breaks the constraint "{constraint}"',
            detail=f"CHECK ({condition})",
            hint="correct the row; a constraint that is wrong takes a new table",
        )
        self.relation = relation
        self.constraint = constraint


class TextTooLong(RuleBroken):
    """A text is longer than its column takes: VARCHAR(n) and CHAR(n) hold n characters.

    Blanks at its end that are too many are cut off, as in Spark; other characters never are.
    Nothing was applied.
    """

    code: ClassVar[str] = "LMR-4022"

    def __init__(
        self, relation: str, column: str, length: int | None, kind: str = "VARCHAR"
    ) -> None:
        holds = f"{kind}({length}) holds {length} characters"
        super().__init__(
            f'a text is too long for "{column}" of "{relation}"',
            detail=f"its type is {kind}" if length is None else holds,
            hint="shorten it, or declare the column STRING",
        )
        self.relation = relation
        self.column = column
        self.length = length


class GeneratedOtherwise(RuleBroken):
    """A generated column was given a value that is not the one it is generated as.

    Leave the column out: it is computed. Nothing was applied.
    """

    code: ClassVar[str] = "LMR-4023"

    def __init__(self, relation: str, column: str, expression: str) -> None:
        super().__init__(
            f'column "{column}" of "{relation}" is given another value than it is generated as',
            detail=f"GENERATED ALWAYS AS ({expression})",
            hint="leave the column out: it is computed",
        )
        self.relation = relation
        self.column = column


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
