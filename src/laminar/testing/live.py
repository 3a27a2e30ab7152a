"""The rows that are in a table now, kept by plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from laminar.testing.bags import Row, frozen


class LiveRows:
    """A bag of rows that knows nothing of epochs, deltas or Spark."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.version = 0

    def insert(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        self.rows.extend(rows)
        self.version += 1

    def delete(self, rows: Sequence[Row]) -> None:
        """Take away one copy of each row; it must be there."""
        self.version += 1
        for row in rows:
            key = frozen(row)
            place = next(at for at, each in enumerate(self.rows) if frozen(each) == key)
            del self.rows[place]

    def some(self, chance: random.Random, count: int) -> list[Row]:
        """Pick rows that are there, each copy at most once."""
        return chance.sample(self.rows, min(count, len(self.rows)))

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return the rows column by column."""
        return {name: [row[place] for row in self.rows] for place, name in enumerate(names)}
