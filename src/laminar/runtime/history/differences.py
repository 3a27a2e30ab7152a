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
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.history.timeline import Snapshot, Timeline


@dataclass(frozen=True, slots=True)
class ChangeFrame:
    """Rows with weights, and how to find them again if their files were replaced meanwhile."""

    frame: DataFrame
    rows: int
    """How many stored rows they stand on."""
    is_large: bool
    """Too many to be collected without being asked for."""
    again: Callable[[], ChangeFrame]


class Differences:
    """Contents of relations at kept epochs, and what they differ by, as frames of one session.

    Args:
        timeline: the epochs that are kept.
        snapshot: what readers see now; asked when files were replaced and frames are made again.
        collect_limit: how many rows may be collected without being asked for.
        session: where frames are made; nobody else uses its names.
        store: reads segments in it.
    """

    def __init__(
        self,
        timeline: Timeline,
        snapshot: Callable[[], Snapshot],
        collect_limit: Callable[[], int],
        session: SparkSession,
        store: SegmentStore,
    ) -> None:
        self._timeline = timeline
        self._snapshot = snapshot
        self._collect_limit = collect_limit
        self._session = session
        self._store = store
        self._lock = threading.Lock()

    def content(self, snapshot: Snapshot, relation: str, epoch: int) -> ChangeFrame | None:
        """Return all rows at an epoch, with weights; None if there are none."""
        manifest = self._manifest(snapshot, relation, epoch)
        if manifest is None:
            return None
        with self._lock:
            bindings = self._bindings(snapshot, manifest, relation)
            if not bindings.state(relation).existed:
                return None
            bindings.frame(relation, Version.AFTER).createOrReplaceTempView("__newer")
            rows = self._consolidated(snapshot, relation, "SELECT * FROM __newer")
            held = bindings.held_rows([relation])
        return self._told(rows, held, lambda: self._all_again(relation, epoch))

    def _all_again(self, relation: str, epoch: int) -> ChangeFrame:
        found = self.content(self._snapshot(), relation, epoch)
        assert found is not None
        return found

    def delta(
        self, snapshot: Snapshot, relation: str, older: int, newer: int
    ) -> ChangeFrame | None:
        """Return what changed between two epochs.

        Stored deltas are read as they are; only where a relation was built anew between the two,
        or never stored its rows, both contents are compared. None if nothing changed.
        """
        first = self._manifest(snapshot, relation, older)
        last = self._manifest(snapshot, relation, newer)
        if first is None or last is None:
            return None if last is None else self.content(snapshot, relation, newer)
        versions = split(relation, snapshot, first, last)
        with self._lock:
            bindings = self._bindings(snapshot, last, relation, versions)
            if versions is None:
                rows = self._difference(snapshot, relation, first, last)
                count = bindings.held_rows([relation])
            elif bindings.state(relation).changed:
                rows = bindings.consolidated_delta(relation)
                count = bindings.delta_rows(relation)
            else:
                return None
        return self._told(rows, count, lambda: self._again(relation, older, newer))

    def _again(self, relation: str, older: int, newer: int) -> ChangeFrame:
        found = self.delta(self._snapshot(), relation, older, newer)
        assert found is not None
        return found

    def _told(self, frame: DataFrame, rows: int, again: Callable[[], ChangeFrame]) -> ChangeFrame:
        return ChangeFrame(frame, rows, rows > self._collect_limit(), again)

    def _difference(
        self, snapshot: Snapshot, relation: str, older: Manifest, newer: Manifest
    ) -> DataFrame:
        for manifest, name in ((older, "__older"), (newer, "__newer")):
            bindings = self._bindings(snapshot, manifest, relation)
            bindings.frame(relation, Version.AFTER).createOrReplaceTempView(name)
        listed = columns(snapshot.catalog.shape(relation).columns)
        minus = f"SELECT {listed}, -{WEIGHT} FROM __older"
        rows = f"SELECT {listed}, {WEIGHT} FROM __newer UNION ALL {minus}"
        return self._consolidated(snapshot, relation, rows)

    def _bindings(
        self,
        snapshot: Snapshot,
        manifest: Manifest,
        relation: str,
        versions: dict[str, TraceVersions] | None = None,
    ) -> Bindings:
        relations = snapshot.relations_at(manifest)
        # One that is behind is what its inputs were at its own epoch.
        at = snapshot.reach(manifest, [relation])
        held = versions_of(relations, manifest.traces, at) | (versions or {})
        return Bindings(self._session, self._store, relations, held)

    def _consolidated(self, snapshot: Snapshot, relation: str, rows: str) -> DataFrame:
        return self._session.sql(consolidate(rows, snapshot.catalog.shape(relation).row))

    def _manifest(self, snapshot: Snapshot, relation: str, epoch: int) -> Manifest | None:
        """Return an epoch; None if the relation was not defined then."""
        if epoch == snapshot.manifest.epoch:
            return snapshot.manifest
        manifest = self._timeline.get(epoch)
        if not any(each["name"] == relation for each in manifest.catalog):
            return None
        return self._timeline.at(epoch, snapshot.upstream([relation]))


def split(
    relation: str, snapshot: Snapshot, older: Manifest, newer: Manifest
) -> dict[str, TraceVersions] | None:
    """Return the stored traces behind a relation, cut where the older epoch ended.

    None if that cannot be told from what is stored.
    """
    before, after = snapshot.relations_at(older), snapshot.relations_at(newer)
    begins, ends = snapshot.reach(older, [relation]), snapshot.reach(newer, [relation])
    versions = versions_of(after, newer.traces, ends)
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
        schema = versions[name].schema
        then = Trace(schema, older.traces.get(name, Trace(schema)).cut(begins)[0])
        now = Trace(schema, newer.traces.get(name, Trace(schema)).cut(ends)[0])
        cut = now.split(then)
        if cut is None:
            return None
        found[name] = TraceVersions(schema, *cut)
    return found
