"""The relations of one epoch, bound in Spark under the names that statements use.

Binding is lazy: a face that no statement names costs nothing. A face is built from stored
segments, from a fused definition, or from partial accumulators.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from laminar.delta.change import State, Version, bag, consolidate, quote, table
from laminar.delta.merge import content
from laminar.delta.program import Mapped, Merged
from laminar.delta.render import change
from laminar.model.trace import WEIGHT, Segment, Trace
from laminar.runtime.operators import signed_rows
from laminar.runtime.relations import Relations, partial_trace
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Moment:
    """A trace around an epoch: what it held before, and what the epoch adds."""

    schema: str
    before: tuple[Segment, ...] = ()
    delta: tuple[Segment, ...] = ()

    def segments(self, version: Version) -> tuple[Segment, ...]:
        """Return the segments of one face."""
        match version:
            case Version.BEFORE:
                return self.before
            case Version.DELTA:
                return self.delta
            case Version.AFTER:
                return (*self.before, *self.delta)

    @property
    def state(self) -> State:
        """Return what statements may rely on."""
        return State(
            changed=bool(self.delta),
            insert_only=all(each.insert_only for each in self.delta),
            positive=all(each.insert_only for each in self.before),
            existed=bool(self.before),
        )

    @property
    def has_retractions(self) -> bool:
        """Whether a row and its retraction may both be here."""
        return not all(each.insert_only for each in (*self.before, *self.delta))

    @property
    def changed_rows(self) -> int:
        """Rows of the delta."""
        return sum(each.rows for each in self.delta)


def moments_of(relations: Relations, traces: Mapping[str, Trace]) -> dict[str, Moment]:
    """Return every trace that a graph may need, with what it holds."""
    found: dict[str, Moment] = {}
    for name, relation in relations.by_name.items():
        schemas = {name: f"{relation.shape.ddl}, {WEIGHT} BIGINT"}
        if isinstance(relation, Merged):
            schemas[partial_trace(name)] = relation.partial_ddl
        for trace, schema in schemas.items():
            stored = traces.get(trace)
            found[trace] = Moment(schema, stored.segments if stored else ())
    return found


class States(Mapping[str, State]):
    """The state of every relation, worked out when asked for."""

    def __init__(self, faces: Faces) -> None:
        self._faces = faces

    def __getitem__(self, name: str) -> State:
        return self._faces.state(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._faces.relations.by_name)

    def __len__(self) -> int:
        return len(self._faces.relations.by_name)


class Faces:
    """One epoch's view of all relations.

    Args:
        session: where names are bound; only one epoch at a time uses it.
        store: reads segments in that session.
        relations: the physical graph.
        moments: trace name -> moment; grows as the epoch computes deltas.
        first: relations that are filled for the first time.
        careful: rows that are taken back within a face are left out of it, at a cost.
    """

    def __init__(
        self,
        session: SparkSession,
        store: SegmentStore,
        relations: Relations,
        moments: dict[str, Moment],
        first: frozenset[str] = frozenset(),
        *,
        careful: bool = False,
    ) -> None:
        self.relations = relations
        self.moments = moments
        self.first = first
        self._careful = careful
        self.states = States(self)
        self.session = session
        self._store = store
        self._bound: set[str] = set()
        self._frames: dict[str, DataFrame] = {}
        self._lock = threading.RLock()

    def state(self, name: str) -> State:
        """Return what is known of a relation in this epoch."""
        if name not in self.relations.fused:
            if self._is_lazy(name):
                return self._lazy_state(name)
            return self.moments[name].state
        relation = self.relations.by_name[name]
        assert isinstance(relation, Mapped)
        found = change(relation.node, self.states, first=bool(self.first))
        return State(
            changed=found.delta is not None,
            insert_only=found.insert_only,
            positive=found.positive,
            existed=found.before is not None,
        )

    def _lazy_state(self, name: str) -> State:
        """The state of groups that are finished when read; without keys there is always a row."""
        relation = self.relations.by_name[name]
        assert isinstance(relation, Merged)
        found = self.moments[partial_trace(name)].state
        return found if relation.node.keys else replace(found, existed=True)

    def _is_lazy(self, name: str) -> bool:
        relation = self.relations.by_name[name]
        return isinstance(relation, Merged) and name not in self.relations.finished

    def run(self, sql: str, names: tuple[str, ...]) -> DataFrame:
        """Analyse a statement over faces of the named relations."""
        with self._lock:
            for name in names:
                self._bind_named_in(sql, name)
        # Outside the lock: analysing takes longer than binding, and nodes run side by side.
        return self.session.sql(sql)

    def _bind_named_in(self, sql: str, name: str) -> None:
        for version in Version:
            if table(name, version) in sql:
                self._bind(table(name, version), lambda v=version: self.frame(name, v))
        for version in Version:
            face = table(partial_trace(name), version)
            if face in sql:
                self._bind(face, lambda v=version: self._stored(partial_trace(name), v))

    def _bind(self, face: str, make) -> None:  # type: ignore[no-untyped-def]
        if face not in self._bound:
            make().createOrReplaceTempView(face)
            self._bound.add(face)

    def frame(self, name: str, version: Version) -> DataFrame:
        """Return one face of a relation as a frame with weights."""
        key = table(name, version)
        with self._lock:
            if key not in self._frames:
                self._frames[key] = self._build(name, version)
            return self._frames[key]

    def _build(self, name: str, version: Version) -> DataFrame:
        relation = self.relations.by_name[name]
        if isinstance(relation, Mapped) and name in self.relations.fused:
            found = change(relation.node, self.states, first=bool(self.first))
            rows = {
                Version.BEFORE: found.before,
                Version.AFTER: found.after,
                Version.DELTA: found.delta,
            }[version]
            if rows is None:
                return self._store.frame(f"{relation.shape.ddl}, {WEIGHT} BIGINT", ())
            return self.run(named(relation, rows), relation.reads)
        if isinstance(relation, Merged) and self._is_lazy(name):
            face = table(partial_trace(name), version)
            positive = self.moments[partial_trace(name)].state.positive
            return self.run(content(relation, face, positive=positive), (name,))
        return self._stored(name, version)

    def _stored(self, name: str, version: Version) -> DataFrame:
        moment = self.moments[name]
        segments = moment.segments(version)
        frame = self._store.frame(moment.schema, segments)
        if not self._careful or all(each.insert_only for each in segments):
            return frame
        face = table(name, f"raw_{version}")
        frame.createOrReplaceTempView(face)
        names = tuple(column for column in frame.columns if column != WEIGHT)
        return self.session.sql(consolidate(f"SELECT * FROM {face}", names))

    def content(self, name: str) -> DataFrame:
        """Return a relation's rows after the epoch, as plain rows."""
        frame = self.frame(name, Version.AFTER)
        state = self.state(name)
        relation = self.relations.by_name[name]
        face = table(name, Version.AFTER)
        with self._lock:
            self._bind(face, lambda: frame)
            positive = state.positive and (state.insert_only or not state.changed)
            return self.session.sql(
                bag(f"SELECT * FROM {face}", relation.shape.columns, positive=positive)
            )

    def plain_delta(self, name: str, sign: int) -> DataFrame:
        """Return what an epoch inserted into a relation (or took from it), as plain rows."""
        relation = self.relations.by_name[name]
        face = table(name, Version.DELTA)
        rows = signed_rows(face, relation.shape.columns, self.state(name), sign)
        return self.run(rows, (name,))

    def consolidated_delta(self, name: str) -> DataFrame:
        """Return a delta in which a row that came and went within the epoch does not show."""
        if self.state(name).insert_only:
            return self.frame(name, Version.DELTA)
        names = self.relations.by_name[name].shape.columns
        face = table(name, Version.DELTA)
        return self.run(consolidate(f"SELECT * FROM {face}", names), (name,))

    def delta_rows(self, name: str) -> int:
        """Return how many rows an epoch's delta stands on."""
        relation = self.relations.by_name[name]
        if name in self.relations.fused:
            return sum(self.delta_rows(each) for each in relation.reads)
        moment = self.moments.get(name) or self.moments[partial_trace(name)]
        return moment.changed_rows

    def share(self, name: str) -> None:
        """Compute a fused relation's delta once and keep it for all its readers."""
        self.frame(name, Version.DELTA).persist()

    def unshare(self, name: str) -> None:
        """Let go of a shared delta."""
        frame = self._frames.get(table(name, Version.DELTA))
        if frame is not None:
            frame.unpersist()


def named(relation: Mapped, rows: str) -> str:
    """Give a plan's columns the names of the relation."""
    pairs = zip(relation.node.columns, relation.shape.columns, strict=True)
    items = ", ".join(f"{column} AS {quote(name)}" for column, name in pairs)
    return f"SELECT {items}, {WEIGHT} FROM ({rows})"
