"""Epochs that are over, worked out again from what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.delta.change import Version, columns, consolidate
from laminar.model.trace import WEIGHT
from laminar.runtime.spark import own_session
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine import Engine


class Redo:
    """Contents of relations at epochs that are over, and the differences between them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session = own_session(engine.spark, 2)
        self._store = SegmentStore(engine.root, self._session)

    def content(self, name: str, epoch: int) -> DataFrame:
        """Return all rows at an epoch, with their weights."""
        self._bind(name, epoch, "__newer")
        return self._consolidated(name, "SELECT * FROM __newer")

    def difference(self, name: str, older: int, newer: int) -> DataFrame:
        """Return what changed between two epochs, as one delta."""
        self._bind(name, older, "__older")
        self._bind(name, newer, "__newer")
        listed = columns(self._engine.catalog.shape(name).columns)
        minus = f"SELECT {listed}, -{WEIGHT} FROM __older"
        return self._consolidated(name, f"SELECT {listed}, {WEIGHT} FROM __newer UNION ALL {minus}")

    def _bind(self, name: str, epoch: int, view: str) -> None:
        _, faces = self._engine.faces_at(self._session, self._store, epoch, [name])
        faces.frame(name, Version.AFTER).createOrReplaceTempView(view)

    def _consolidated(self, name: str, rows: str) -> DataFrame:
        return self._session.sql(consolidate(rows, self._engine.catalog.shape(name).columns))
