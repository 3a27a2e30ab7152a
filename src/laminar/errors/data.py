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


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
