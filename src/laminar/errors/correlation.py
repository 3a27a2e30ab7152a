"""What can be wrong with subqueries that read columns of the queries around them."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.sql import SqlError


class ColumnOutOfReach(SqlError):
    """A query names a column that is there, but not at this place.

    A subquery sees the query right around it. HAVING sees what is grouped by, and ORDER BY what is
    selected.
    """

    code: ClassVar[str] = "LMR-3026"

    def __init__(self, name: str, owner: str = "") -> None:
        shown = f"{owner}.{name}" if owner else name
        super().__init__(
            f'the column "{shown}" cannot be read here',
            hint="a subquery sees the query right around it; HAVING sees the keys of GROUP BY",
        )
        self.name = name


class CorrelatedTooFar(SqlError):
    """A subquery reads a column of a query two or more levels out, and the view has no rule.

    Spark runs no such query, so it cannot be recomputed in full either: it has to be kept up to
    date. Write it as a join, or let the query in between hand the column on.
    """

    code: ClassVar[str] = "LMR-3025"

    def __init__(self, reason: str) -> None:
        super().__init__(
            "a subquery reads a column of a query two or more levels out",
            detail=reason,
            hint="write it as a join, or let the query in between select that column",
        )
