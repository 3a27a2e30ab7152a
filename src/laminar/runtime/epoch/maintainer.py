"""One relation, one epoch: pick the statement, run it, keep what it yields."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.delta.affected_groups import is_touched, regroup
from laminar.delta.asof import moments
from laminar.delta.change import Change, Version, consolidate, table
from laminar.delta.fixpoint import recurse, recurse_anew
from laminar.delta.full import recompute
from laminar.delta.guards import holds
from laminar.delta.linear import block_of
from laminar.delta.partials import accumulate, finish, needs_reset, reset, touched_results
from laminar.delta.program import (
    Aged,
    Applied,
    Emitted,
    Guard,
    Late,
    Limited,
    Maintained,
    Mapped,
    Merged,
    Periodic,
    Recomputed,
    Recursed,
    Regrouped,
    Sessioned,
)
from laminar.delta.render import change
from laminar.delta.sessions import resession
from laminar.delta.topk import retop
from laminar.model.trace import WEIGHT, Segment
from laminar.model.trace_name import partial_trace
from laminar.plan.nodes import Join, KeyedJoin, Node, children
from laminar.runtime.epoch.late_rows import LateRows
from laminar.runtime.epoch.python_operators import apply
from laminar.runtime.epoch.shared_scan import SharedScan
from laminar.runtime.epoch.timed_relations import InTime
from laminar.runtime.history.turn import inside
from laminar.runtime.relations.bindings import Bindings, with_names
from laminar.runtime.relations.time_pruning import near
from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("laminar.epochs")

FullRunner = Callable[[Recomputed, str, Bindings], "DataFrame"]
"""Runs a user's query over plain rows under the user's own names."""


class Maintainer:
    """Keeps relations up to date in one epoch."""

    def __init__(
        self, bindings: Bindings, store: SegmentStore, epoch: int, full: FullRunner
    ) -> None:
        self._bindings = bindings
        self._store = store
        self._epoch = epoch
        self._full = full
        self.shared: dict[str, SharedScan] = {}
        self.in_time = InTime(bindings, self.append)
        self.late = LateRows(bindings, epoch)
        self.anew: set[str] = set()
        """Relations that this epoch computed in full although they have a rule."""

    def maintain(self, relation: Maintained) -> int:
        """Bring one relation up to date; return how many delta rows were stored."""
        name = relation.shape.name
        if isinstance(relation, Emitted | Periodic | Aged):
            return self.in_time.maintain(relation)
        if not self._is_touched(relation):
            return 0
        if name in self._bindings.relations.fused:
            if isinstance(relation, Mapped) and relation.guard is not None:
                self._try(relation, relation.guard)
            return 0
        match relation:
            case Mapped():
                return self._mapped(relation)
            case Merged():
                return self._merged(relation)
            case Regrouped():
                given = [self._change(each) for each in children(relation.node)]
                if not is_touched(relation, given, first=name in self._bindings.first):
                    return 0
                return self._regrouped(relation, given)
            case Limited():
                found = self._change(relation.node.input)
                if found.delta is None:
                    return 0
                return self._store_rows(
                    name, retop(relation, found, existed=self._had(name)), relation
                )
            case Sessioned():
                return self._sessioned(relation)
            case Recursed():
                return self._recursed(relation)
            case Late():
                frame = self.late.rows(relation)
                return 0 if frame is None else self.append(name, frame, relation)
            case Recomputed():
                return self._recomputed(relation)
            case Applied():
                with inside(self._store.root, name):
                    frame = apply(relation, self._bindings, self._bindings.session, self._epoch)
                return self.append(name, frame, relation)

    def _regrouped(self, relation: Regrouped, given: list[Change]) -> int:
        name, node = relation.shape.name, relation.node
        existed = self._had(name)
        if not isinstance(node, KeyedJoin) or node.kind != "ASOF" or given[-1].delta is None:
            return self._store_rows(name, regroup(relation, given, existed=existed), relation)
        # The statement asks for the touched moments several times, and finding them is work.
        found = self._bindings.run(moments(node, *given), relation.reads).persist()
        try:
            binding = self._bindings.bind(table(name, "moments"), found)
            sql = regroup(relation, given, existed=existed, touched=binding)
            return self._store_rows(name, sql, relation)
        finally:
            found.unpersist()

    def _is_touched(self, relation: Maintained) -> bool:
        if relation.shape.name in self._bindings.first:
            return True
        return any(self._bindings.state(name).changed for name in relation.reads)

    def _had(self, name: str) -> bool:
        return self._bindings.state(name).existed

    def _change(self, node: Node) -> Change:
        return change(node, self._bindings.states, first=self._is_first)

    @property
    def _is_first(self) -> bool:
        return bool(self._bindings.first)

    def _mapped(self, relation: Mapped) -> int:
        found = self._change(with_names(relation))
        if found.delta is None:
            return 0
        rows = found.delta
        if not found.insert_only:
            rows = consolidate(rows, relation.shape.row)
        sql = near(relation, rows, self._bindings)
        return self._store_rows(relation.shape.name, sql, relation)

    def _merged(self, relation: Merged) -> int:
        name = relation.shape.name
        found = self._change(relation.node.input)
        partial = partial_trace(name)
        before = table(partial, Version.BEFORE) if self._bindings.versions[partial].before else None
        if found.delta is not None:
            self._accumulate(relation, found, before)
        trace_versions = self._bindings.versions[partial]
        is_first = name in self._bindings.first
        if name not in self._bindings.relations.finished:
            return trace_versions.changed_rows
        if not trace_versions.delta and not (is_first and not relation.node.keys):
            return 0
        sql = finish(
            relation,
            before,
            table(partial, Version.DELTA),
            positive=all(
                each.insert_only for each in (*trace_versions.before, *trace_versions.delta)
            ),
            first=is_first,
        )
        return self._store_rows(name, sql, relation, extra=(name,))

    def _try(self, relation: Mapped, guard: Guard) -> None:
        """Compute the new rows of a view that stores none, to see whether that fails."""
        (name,) = relation.reads
        groups = self._bindings.relations.by_name[name]
        rows = f"SELECT * FROM {table(name, Version.DELTA)} WHERE {WEIGHT} > 0"
        if isinstance(groups, Merged) and name not in self._bindings.relations.finished:
            trace_versions = self._bindings.versions[partial_trace(name)]
            segments = trace_versions.segments(Version.AFTER)
            positive = all(each.insert_only for each in segments)
            if not trace_versions.delta or (
                positive and holds(guard, groups, _above_zero(segments))
            ):
                return
            before, delta = (
                table(partial_trace(name), each) for each in (Version.BEFORE, Version.DELTA)
            )
            rows = touched_results(
                groups, before if trace_versions.before else None, delta, positive=positive
            )
        block = block_of(with_names(relation))
        assert block is not None
        frame = self._bindings.compute(block.select_from(f"({rows})"), (name,))
        frame.write.format("noop").mode("overwrite").save()

    def _accumulate(self, relation: Merged, found: Change, before: str | None) -> None:
        name = relation.shape.name
        partial = partial_trace(name)
        rows = self.shared[name].partial_rows(relation) if name in self.shared else None
        if rows is not None:
            times = self._bindings.relations.times(name)
            segment = self._store.write_arrow(partial, self._epoch, rows, times)
            if segment is not None:
                self._add(partial, segment)
            return
        if needs_reset(relation, found):
            sql = reset(relation, found, before)
        else:
            sql = accumulate(relation, found)
        self.append(partial, self._bindings.compute(sql, (*relation.reads, name)), relation)

    def _sessioned(self, relation: Sessioned) -> int:
        found = self._change(relation.node.input)
        if found.delta is None:
            return 0
        name, given = relation.shape.name, relation.node.horizon
        sql = resession(
            relation,
            found,
            existed=self._had(name),
            final=None if given is None else self._bindings.final(given),
            may_be_late=given is not None and self._bindings.horizon(given) is not None,
        )
        return self._store_rows(name, sql, relation)

    def _recursed(self, relation: Recursed) -> int:
        """Follow the change; rows that cancel may fail on the way, though none is in the answer."""
        name, states = relation.shape.name, self._bindings.states
        existed, first = self._had(name), self._is_first
        found = recurse(relation, states, existed=existed, first=first)
        if found is None or found.delta is None:
            return 0
        try:
            return self._store_rows(name, found.delta, relation)
        except SPARK_FAILS as error:
            if found.insert_only or not existed:
                raise
            said = first_sentence(error)
            _LOG.warning("epoch %d computes %s in full: %s", self._epoch, name, said)
        self.anew.add(name)
        return self._store_rows(name, recurse_anew(relation, states, first=first), relation)

    def _recomputed(self, relation: Recomputed) -> int:
        name = relation.shape.name
        sql = recompute(relation, existed=self._had(name))
        return self.append(name, self._full(relation, sql, self._bindings), relation)

    def _store_rows(
        self, name: str, sql: str, relation: Maintained, extra: tuple[str, ...] = ()
    ) -> int:
        frame = self._bindings.compute(sql, (*relation.reads, name, *extra))
        return self.append(name, frame, relation)

    def append(self, trace: str, frame: DataFrame, relation: Maintained) -> int:
        """Run a statement and add its rows to a trace's delta."""
        segment = self._store.materialise(
            trace,
            self._epoch,
            frame,
            self._expected(relation),
            self._bindings.relations.times(trace),
        )
        if segment is None:
            return 0
        self._add(trace, segment)
        return segment.rows

    def _add(self, trace: str, segment: Segment) -> None:
        # No lock: a trace is added to by the one node that keeps it, on one thread.
        trace_versions = self._bindings.versions[trace]
        self._bindings.versions[trace] = replace(
            trace_versions, delta=(*trace_versions.delta, segment)
        )

    def _expected(self, relation: Maintained) -> int:
        """Guess the rows of a result, to choose how it travels; joins may multiply."""
        rows = sum(self._bindings.delta_rows(name) for name in relation.reads)
        return rows * (4 if _multiplies(relation) else 1)


def _above_zero(segments: tuple[Segment, ...]) -> frozenset[str]:
    return frozenset.intersection(*(frozenset(each.positive) for each in segments))


def _multiplies(relation: Maintained) -> bool:
    if isinstance(relation, Recomputed | Applied | Recursed):
        return True
    if isinstance(relation, Emitted | Periodic | Aged):
        return False
    stack: list[Node] = [relation.node]
    while stack:
        node = stack.pop()
        if isinstance(node, Join | KeyedJoin):
            return True
        stack.extend(children(node))
    return False
