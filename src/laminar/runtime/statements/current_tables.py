"""Tables as a statement that changes rows sees them: committed rows and all that is pending.

Law: each statement sees what those before it have done, before an epoch has taken it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from laminar.delta.change import Version, bag, columns, quote
from laminar.model.quoting import source_uri
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.arriving_rows import pending_number
from laminar.store.parquet import reading_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.timeline import Snapshot
    from laminar.runtime.relations.bindings import Bindings
    from laminar.store import PendingBatch, SegmentStore

_COMMITTED, _PENDING = "__committed_rows", "__pending_rows"


class CurrentTables:
    """Knows what waits for the next epoch, and reads it; who uses it has the reader's lock."""

    def __init__(self, engine: Engine, session: SparkSession, store: SegmentStore) -> None:
        self._engine = engine
        self._session = session
        self._store = store

    def waiting(self, name: str, snapshot: Snapshot) -> list[PendingBatch]:
        """Return the batches that wait for a table; none for a view."""
        if not isinstance(snapshot.catalog.definitions.get(name), TableDefinition):
            return []
        start = snapshot.manifest.offsets.get(name) or 0
        return self._engine.ledger.pending.after(name, start) if isinstance(start, int) else []

    def behind(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the views among relations that an epoch over what waits would change."""
        snapshot, scheduler = self._engine.snapshot(), self._engine.scheduler
        views = [name for name in names if name in snapshot.catalog.programs]
        lacking = [view for view in views if self._lacks(view, snapshot)]
        moving = scheduler.plan(self._engine.env.clock()).stepping() if lacking else ()
        return tuple(view for view in lacking if view in moving)

    def at_epoch(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tables below views that are read beside them: all are seen at one epoch.

        What waits for them came while the statement began: its own rows are in the epoch by then.
        """
        registry, held = self._engine.defined.catalog.registry, self._engine.scheduler.held()
        views = [name for name in names if name in registry and name not in held]
        return frozenset(each for view in views for each in registry.all_dependencies(view))

    def frame(self, name: str, bindings: Bindings, snapshot: Snapshot) -> DataFrame:
        """Return a relation's rows: of a table with all that is pending."""
        if not self.waiting(name, snapshot):
            return bindings.content(name)
        rows = self.weighted(name, bindings, snapshot)
        row = snapshot.catalog.shape(name).row.plus(ARRIVAL, "bigint")
        return self._session.sql(bag(rows, row, positive=False)).drop(ARRIVAL)

    def weighted(self, name: str, bindings: Bindings, snapshot: Snapshot) -> str:
        """Bind committed and pending rows of a table; return the query of both, with weights."""
        shape = snapshot.catalog.shape(name)
        bindings.frame(name, Version.AFTER).createOrReplaceTempView(_COMMITTED)
        listed = f"{columns(shape.columns)}, {ARRIVAL}, {WEIGHT}"
        committed = f"SELECT {listed} FROM {_COMMITTED}"
        batches = self.waiting(name, snapshot)
        if not batches:
            return committed
        self._engine.ledger.pending.verify(batches)  # Spark would not notice a changed footer
        paths = [source_uri(batch.path) for batch in batches]
        reader = self._session.read.options(**reading_options(shape.numbered))
        waiting = reader.schema(self._store.struct(shape.numbered)).parquet(*paths)
        names = [quote(each) for each in shape.columns]
        waiting = waiting.selectExpr(*names, f"{pending_number()} AS {ARRIVAL}", WEIGHT)
        waiting.createOrReplaceTempView(_PENDING)
        return f"{committed} UNION ALL SELECT {listed} FROM {_PENDING}"

    def _lacks(self, view: str, snapshot: Snapshot) -> bool:
        """Whether rows wait for a table that a view reads, however far."""
        below = snapshot.catalog.registry.all_dependencies(view)
        return any(self.waiting(name, snapshot) for name in below)
