"""What every test that crashes or soaks asks of the counts of sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.model.row_counts import RowCounts

if TYPE_CHECKING:
    from laminar.session import Database


def counts(db: Database) -> dict[str, RowCounts]:
    """Return source or table -> what became of its rows, after checking that it adds up."""
    columns = "name, rows_read, rows_stored, rows_dropped, rows_refused, rows_late"
    rows = db.sql(f"SELECT {columns} FROM laminar_system.sources").rows()
    found = {name: RowCounts(*each) for name, *each in rows}
    assert all(each.add_up for each in found.values()), found
    return found
