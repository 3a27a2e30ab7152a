"""What changed between two kept epochs.

    Δ(r, a, b) = content(r, b) - content(r, a)        for kept epochs a < b

A relation that is not defined at an epoch has no rows there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar.delta.change import Version, columns, consolidate
from laminar.delta.program import Mapped, Merged
from laminar.model.trace import WEIGHT, Manifest, Trace
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions, moments_of
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ChangeFrame:
    """Rows with weights, and how to find them again if their files were replaced meanwhile."""

    frame: DataFrame
    is_large: bool
    """Too many to be collected without being asked for."""
    again: Callable[[], ChangeFrame]


class Differences:
    """Contents of relations at kept epochs, and what they differ by, as frames of one session."""

    def __init__(self, engine: Engine, session: SparkSession, store: SegmentStore) -> None:
        self._engine = engine
        self._session = session
        self._store = store
        self._lock = threading.Lock()

    def content(self, visible: Snapshot, relation: str, epoch: int) -> ChangeFrame | None:
        """Return all rows at an epoch, with weights; None if there are none."""
        manifest = self._manifest(visible, relation, epoch)
        if manifest is None:
            return None
        with self._lock:
            faces = self._faces(visible, manifest, relation)
            if not faces.state(relation).existed:
                return None
            faces.frame(relation, Version.AFTER).createOrReplaceTempView("__newer")
            rows = self._consolidated(visible, relation, "SELECT * FROM __newer")
            is_large = self._is_large(faces.held_rows([relation]))
        return ChangeFrame(rows, is_large, lambda: self._all_again(relation, epoch))

    def _all_again(self, relation: str, epoch: int) -> ChangeFrame:
        found = self.content(self._engine.visible, relation, epoch)
        assert found is not None
        return found

    def delta(self, visible: Snapshot, relation: str, older: int, newer: int) -> ChangeFrame | None:
        """Return what changed between two epochs.

        Stored deltas are read as they are; only where a relation was built anew between the two,
        or never stored its rows, both contents are compared. None if nothing changed.
        """
        first = self._manifest(visible, relation, older)
        last = self._manifest(visible, relation, newer)
        if first is None or last is None:
            return None if last is None else self.content(visible, relation, newer)
        moments = split(relation, visible, first, last)
        with self._lock:
            faces = self._faces(visible, last, relation, moments)
            if moments is None:
                rows = self._difference(visible, relation, first, last)
                is_large = self._is_large(faces.held_rows([relation]))
            elif faces.state(relation).changed:
                rows = faces.consolidated_delta(relation)
                is_large = self._is_large(faces.delta_rows(relation))
            else:
                return None
        return ChangeFrame(rows, is_large, lambda: self._again(relation, older, newer))

    def _again(self, relation: str, older: int, newer: int) -> ChangeFrame:
        found = self.delta(self._engine.visible, relation, older, newer)
        assert found is not None
        return found

    def _is_large(self, rows: int) -> bool:
        return rows > self._engine.settings.number("collect_limit_rows")

    def _difference(
        self, visible: Snapshot, relation: str, older: Manifest, newer: Manifest
    ) -> DataFrame:
        for manifest, name in ((older, "__older"), (newer, "__newer")):
            faces = self._faces(visible, manifest, relation)
            faces.frame(relation, Version.AFTER).createOrReplaceTempView(name)
        listed = columns(visible.catalog.shape(relation).columns)
        minus = f"SELECT {listed}, -{WEIGHT} FROM __older"
        rows = f"SELECT {listed}, {WEIGHT} FROM __newer UNION ALL {minus}"
        return self._consolidated(visible, relation, rows)

    def _faces(
        self,
        visible: Snapshot,
        manifest: Manifest,
        relation: str,
        moments: dict[str, TraceVersions] | None = None,
    ) -> Bindings:
        relations = visible.relations_at(manifest)
        # One that is behind is what its inputs were at its own epoch.
        at = visible.reach(manifest, [relation])
        held = moments_of(relations, manifest.traces, at) | (moments or {})
        return Bindings(self._session, self._store, relations, held)

    def _consolidated(self, visible: Snapshot, relation: str, rows: str) -> DataFrame:
        return self._session.sql(consolidate(rows, visible.catalog.shape(relation).columns))

    def _manifest(self, visible: Snapshot, relation: str, epoch: int) -> Manifest | None:
        """Return an epoch; None if the relation was not defined then."""
        if epoch == visible.manifest.epoch:
            return visible.manifest
        manifest = self._engine.timeline.get(epoch)
        if not any(each["name"] == relation for each in manifest.catalog):
            return None
        return self._engine.timeline.at(epoch, visible.upstream([relation]))


def split(
    relation: str, visible: Snapshot, older: Manifest, newer: Manifest
) -> dict[str, TraceVersions] | None:
    """Return the stored traces behind a relation, cut where the older epoch ended.

    None if that cannot be told from what is stored.
    """
    before, after = visible.relations_at(older), visible.relations_at(newer)
    begins, ends = visible.reach(older, [relation]), visible.reach(newer, [relation])
    moments = moments_of(after, newer.traces, ends)
    found: dict[str, TraceVersions] = {}
    waiting = [relation]
    while waiting:
        name = waiting.pop()
        if (name in before.fused) != (name in after.fused):
            return None
        held = after.by_name[name]
        if name in after.fused and isinstance(held, Mapped):
            waiting += held.reads
            continue
        if isinstance(held, Merged) and not {name} <= older.traces.keys() & after.finished:
            return None  # accumulators only: a part of them is no part of the rows
        schema = moments[name].schema
        then = Trace(schema, older.traces.get(name, Trace(schema)).cut(begins)[0])
        now = Trace(schema, newer.traces.get(name, Trace(schema)).cut(ends)[0])
        cut = now.split(then)
        if cut is None:
            return None
        found[name] = TraceVersions(schema, *cut)
    return found
