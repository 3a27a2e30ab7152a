"""What can be wrong with rows that are handed in."""

from __future__ import annotations

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


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
