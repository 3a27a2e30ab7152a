"""The relations of one epoch, bound in Spark under the names that statements use.

Binding is lazy: a binding that no statement names costs nothing. A binding is built from stored
segments, from a fused definition, or from partial accumulators.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from laminar.delta.change import State, Version, bag, consolidate, quote, signed_rows, table
from laminar.delta.linear import keeps_weights
from laminar.delta.partials import content
from laminar.delta.program import Mapped, Merged
from laminar.delta.render import change
from laminar.model.event_time import END_OF_TIME, final, through
from laminar.model.trace import WEIGHT, Segment
from laminar.model.trace_name import partial_trace
from laminar.plan.nodes import Horizon, Project
from laminar.runtime.catalog.storage_plan import StoragePlan
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.relations.trace_versions import TraceVersions
from laminar.runtime.spark.statement_cache import StatementCache
from laminar.store import SegmentStore
from laminar.store.segments import row_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WORD = re.compile(r"\b\w+__\w+\b")
"""How bindings are called in statements, see `delta.change.table`."""


@dataclass(slots=True)
class _Names:
    """What a statement has to be told about the names it uses."""

    statement_cache: StatementCache | None = None
    """Where stored rows are read from; None for views of the session."""
    defined: dict[str, str] = field(default_factory=dict)
    """Binding -> what stands for it, in an order in which each names only those before."""
    is_of_now: bool = False
    """Whether a name belongs to this epoch alone, so that the statement cannot be kept."""

    def statement(self, sql: str) -> str:
        """Return a statement that says itself what its names mean."""
        if not self.defined:
            return sql
        listed = ",\n".join(f"{binding} AS ({text})" for binding, text in self.defined.items())
        return f"WITH {listed}\n{sql}"


class States(Mapping[str, State]):
    """The state of every relation, worked out when asked for."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings

    def __getitem__(self, name: str) -> State:
        return self._bindings.state(name)

    def horizon(self, horizon: Horizon) -> int | None:
        """Return the first end of a window that is not final; None if no row can be late."""
        return self._bindings.horizon(horizon)

    def __iter__(self) -> Iterator[str]:
        return iter(self._bindings.relations.by_name)

    def __len__(self) -> int:
        return len(self._bindings.relations.by_name)


class Bindings:
    """One epoch's view of all relations.

    Args:
        session: where names are bound; only one epoch at a time uses it.
        store: reads segments in that session.
        relations: the physical graph.
        versions: trace name -> its versions; grows as the epoch computes deltas.
        first: relations that are filled for the first time.
        careful: rows that are taken back within a binding are left out of it, at a cost.
        epoch_time: the epoch's time.
        statement_cache: what statements that run at once are kept in; without, none is kept.
    """

    def __init__(
        self,
        session: SparkSession,
        store: SegmentStore,
        relations: StoragePlan,
        versions: dict[str, TraceVersions],
        first: frozenset[str] = frozenset(),
        *,
        careful: bool = False,
        epoch_time: EpochTime | None = None,
        statement_cache: StatementCache | None = None,
    ) -> None:
        self.epoch_time = epoch_time or EpochTime()
        self.relations = relations
        self.versions = versions
        self.first = first
        self._careful = careful
        self.states = States(self)
        self.session = session
        self._store = store
        self._statement_cache = None if careful else statement_cache
        if self._statement_cache is not None:
            self._statement_cache.serve(relations, len(relations.by_name))
        self._bound: set[str] = set()
        self.named: set[str] = set()
        """Views of the session that were made for stored rows."""
        self._cuts: dict[str, tuple[str, tuple[Segment, ...]]] = {}  # name -> schema, segments
        self._views: dict[str, str] = {}  # binding -> the view of its link folder
        self._loose: set[str] = set()  # names of frames that only this epoch has
        self._shared: dict[str, DataFrame] = {}
        self._lock = threading.Lock()

    def state(self, name: str) -> State:
        """Return what is known of a relation in this epoch."""
        if name not in self.relations.fused:
            if self._is_lazy(name):
                return self._lazy_state(name)
            return self.versions[name].state
        relation = self.relations.by_name[name]
        assert isinstance(relation, Mapped)
        found = change(relation.node, self.states, first=bool(self.first))
        return State(
            changed=found.delta is not None,
            insert_only=found.insert_only,
            positive=found.positive,
            existed=found.before is not None,
            units=keeps_weights(relation.node)
            and all(self.state(each).units for each in relation.reads),
            held_units=keeps_weights(relation.node)
            and all(self.state(each).held_units for each in relation.reads),
        )

    def _lazy_state(self, name: str) -> State:
        """The state of groups that are finished when read; without keys there is always a row."""
        relation = self.relations.by_name[name]
        assert isinstance(relation, Merged)
        found = self.versions[partial_trace(name)].state
        return found if relation.node.keys else replace(found, existed=True)

    def _is_lazy(self, name: str) -> bool:
        relation = self.relations.by_name[name]
        return isinstance(relation, Merged) and name not in self.relations.finished

    def run(self, sql: str, names: tuple[str, ...]) -> DataFrame:
        """Analyse a statement over bindings of the named relations."""
        return self._analysed(sql, names, _Names())

    def compute(self, sql: str, names: tuple[str, ...]) -> DataFrame:
        """Return the frame of a statement that runs now: it may have been analysed before."""
        if self._statement_cache is None or not self._statement_cache.are_possible:
            return self.run(sql, names)
        return self._analysed(sql, names, _Names(self._statement_cache))

    def _analysed(self, sql: str, names: tuple[str, ...], known: _Names) -> DataFrame:
        with self._lock:
            self._provide(sql, names, known)
        # Outside the lock: analysing takes longer than binding, and nodes run side by side.
        text = known.statement(sql)
        if known.statement_cache is None or known.is_of_now:
            return self.session.sql(text)
        return known.statement_cache.statement(text)

    def _provide(self, sql: str, names: tuple[str, ...], known: _Names) -> None:
        """Make every binding that a statement names known to it.

        Stored rows are bound as a view of the session. What is only a definition goes into the
        statement itself: analysing it apart would cost as much again.
        """
        used = set(_WORD.findall(sql))
        for name in names:
            for version in Version:
                binding = table(name, version)
                if binding in used and binding not in known.defined:
                    self._provide_binding(name, version, binding, known)
                partial = table(partial_trace(name), version)
                if partial in used:
                    self._bind_stored(partial, partial_trace(name), version, known)
        for binding in used & self._cuts.keys():
            self._bind_cut(binding, *self._cuts[binding], known)
        known.is_of_now |= not used.isdisjoint(self._loose)

    def _provide_binding(self, name: str, version: Version, binding: str, known: _Names) -> None:
        if binding in self._shared:
            if binding not in self._loose:
                self._shared[binding].createOrReplaceTempView(binding)
                self._loose.add(binding)
            return
        definition = self._definition(name, version)
        if definition is None:
            self._bind_stored(binding, name, version, known)
            return
        sql, reads = definition
        self._provide(sql, reads, known)
        known.defined[binding] = sql

    def _bind_stored(self, binding: str, trace: str, version: Version, known: _Names) -> None:
        if known.statement_cache is None:
            if binding not in self._bound:
                self._name(binding, self._stored(trace, version))
                self._bound.add(binding)
            return
        trace_versions = self.versions[trace]
        self._bind_cut(binding, trace_versions.schema, trace_versions.segments(version), known)

    def _bind_cut(
        self, binding: str, schema: str, segments: tuple[Segment, ...], known: _Names
    ) -> None:
        if known.statement_cache is None:
            self._name(binding, self._store.frame(schema, segments))
            return
        if binding not in self._views:
            # Once an epoch: a statement that reads the folder may be running already.
            self._views[binding] = known.statement_cache.view(binding, schema, segments)
        known.defined.setdefault(binding, f"SELECT * FROM {self._views[binding]}")

    def bind(self, name: str, frame: DataFrame) -> str:
        """Give a frame of this epoch a name for statements; return the name."""
        frame.createOrReplaceTempView(name)
        with self._lock:
            self._loose.add(name)
        return name

    def _definition(self, name: str, version: Version) -> tuple[str, tuple[str, ...]] | None:
        """Return the text that stands for a binding, and what it reads; None for stored rows."""
        relation = self.relations.by_name[name]
        if isinstance(relation, Mapped) and name in self.relations.fused:
            found = change(with_names(relation), self.states, first=bool(self.first))
            rows = {
                Version.BEFORE: found.before,
                Version.AFTER: found.after,
                Version.DELTA: found.delta,
            }[version]
            return (nothing(relation), ()) if rows is None else (rows, relation.reads)
        if isinstance(relation, Merged) and self._is_lazy(name):
            binding = table(partial_trace(name), version)
            held = self.versions[partial_trace(name)].state
            units = held.held_units and (held.units or not held.changed)
            positive = held.positive and (held.insert_only or not held.changed)
            return content(relation, binding, positive=positive, units=units), (name,)
        return None

    def frame(self, name: str, version: Version) -> DataFrame:
        """Return one binding of a relation as a frame with weights."""
        shared = self._shared.get(table(name, version))
        if shared is not None:
            return shared
        definition = self._definition(name, version)
        return self._stored(name, version) if definition is None else self.run(*definition)

    def _stored(self, name: str, version: Version) -> DataFrame:
        trace_versions = self.versions[name]
        segments = trace_versions.segments(version)
        frame = self._store.frame(trace_versions.schema, segments)
        if not self._careful or all(each.insert_only for each in segments):
            return frame
        binding = table(name, f"raw_{version}")
        self._name(binding, frame)
        return self.session.sql(consolidate(f"SELECT * FROM {binding}", row_type(frame.schema)))

    def _name(self, binding: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(binding)
        self.named.add(binding)

    def content(self, name: str) -> DataFrame:
        """Return a relation's rows after the epoch, as plain rows."""
        state = self.state(name)
        relation = self.relations.by_name[name]
        positive = state.positive and (state.insert_only or not state.changed)
        units = (state.held_units or not state.existed) and (state.units or not state.changed)
        rows = f"SELECT * FROM {table(name, Version.AFTER)}"
        plain = bag(rows, relation.shape.row, positive=positive, units=units)
        return self.run(plain, (name,))

    def plain_delta(self, name: str, sign: int) -> DataFrame:
        """Return what an epoch inserted into a relation (or took from it), as plain rows."""
        relation = self.relations.by_name[name]
        binding = table(name, Version.DELTA)
        rows = signed_rows(binding, relation.shape.row, self.state(name), sign)
        return self.run(rows, (name,))

    def consolidated_delta(self, name: str) -> DataFrame:
        """Return a delta in which a row that came and went within the epoch does not show."""
        shape = self.relations.by_name[name].shape
        if self.state(name).insert_only:
            return self.frame(name, Version.DELTA).select(*map(quote, shape.columns), WEIGHT)
        binding = table(name, Version.DELTA)
        return self.run(consolidate(f"SELECT * FROM {binding}", shape.row), (name,))

    def delta_rows(self, name: str) -> int:
        """Return how many rows an epoch's delta stands on."""
        relation = self.relations.by_name[name]
        if name in self.relations.fused:
            return sum(self.delta_rows(each) for each in relation.reads)
        trace = partial_trace(name) if self._is_lazy(name) else name
        return self.versions[trace].changed_rows

    def held_rows(self, names: Iterable[str]) -> int:
        """Return how many stored rows the content of relations stands on."""
        rows, seen, waiting = 0, set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.relations.fused:
                waiting += self.relations.by_name[name].reads
            trace = partial_trace(name) if self._is_lazy(name) else name
            rows += sum(each.rows for each in self.versions[trace].before)
        return rows

    def final(self, horizon: Horizon) -> int | None:
        """Return the first end of a window that was not final when the epoch began."""
        return final(horizon.chains, self.epoch_time.before.get(horizon.view))

    def horizon(self, horizon: Horizon) -> int | None:
        """Return the same; None if no row of the epoch is in a window before that."""
        bound = self.final(horizon)
        if bound is None or not horizon.direct:
            return bound
        for relation, column, steps in horizon.origins:
            least = self._least(relation, column)
            if least is None or through(steps, least) < bound:
                return bound
        return None

    def _least(self, relation: str, column: str) -> int | None:
        """Return the least value of a column in a delta, as its segments know it."""
        if relation in self.relations.fused:
            found = self.relations.lineage[relation].get(column, ())
            lows = [(self._least(each.relation, each.column), each.steps) for each in found]
            known = [through(steps, low) for low, steps in lows if low is not None]
            return min(known) if known and len(known) == len(lows) else None
        lazy = self._is_lazy(relation)
        delta = self.versions[partial_trace(relation) if lazy else relation].delta
        if any(column not in each.spans for each in delta):
            return None
        return min((each.spans[column][0] for each in delta), default=END_OF_TIME)

    def bind_segments(
        self, trace: str, segments: tuple[Segment, ...], reader: str, what: str = "some"
    ) -> str:
        """Let one reader know some segments of a trace; return the name.

        Others may want others of the same trace, at the same time.
        """
        binding = table(trace, f"{what}_{zlib.crc32(reader.encode()):08x}")
        with self._lock:
            self._cuts[binding] = self.versions[trace].schema, segments
        return binding

    def share(self, name: str) -> None:
        """Compute a fused relation's delta once and keep it for all its readers."""
        self._shared[table(name, Version.DELTA)] = self.frame(name, Version.DELTA).persist()

    def unshare(self, name: str) -> None:
        """Let go of a shared delta."""
        frame = self._shared.pop(table(name, Version.DELTA), None)
        if frame is not None:
            frame.unpersist()


def nothing(relation: Mapped) -> str:
    """Return a query with the relation's columns and no rows."""
    row = f"SELECT CAST(NULL AS STRUCT<{relation.shape.ddl}>) AS r"
    return f"SELECT r.*, 1L AS {WEIGHT} FROM ({row}) WHERE false"


def with_names(relation: Mapped) -> Project:
    """Return the relation's plan with its columns under the relation's names."""
    pairs = zip(relation.node.columns, relation.shape.columns, strict=True)
    return Project(relation.node, tuple((column, quote(name)) for column, name in pairs))
