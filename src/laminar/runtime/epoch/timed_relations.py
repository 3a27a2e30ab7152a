"""Relations that show their rows when time says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from laminar.delta.aging import aged, next_limits
from laminar.delta.change import Version, columns, consolidate, table
from laminar.delta.emission import Thresholds, emit_merged, emit_stored
from laminar.delta.program import Aged, Emitted, Maintained, Merged, Periodic
from laminar.model.trace import WEIGHT, Segment
from laminar.model.trace_name import pending_trace
from laminar.runtime.event_time.due import state_trace, that_age, that_close, thresholds
from laminar.runtime.event_time.late_batch import TimedResults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.relations.bindings import Bindings

Append = Callable[[str, "DataFrame", Maintained], int]
"""Runs a statement and adds its rows to a trace's delta."""


class InTime:
    """Shows what is due in one epoch: windows that close, turns of the clock, rows that age."""

    def __init__(self, bindings: Bindings, append: Append) -> None:
        self._bindings = bindings
        self._append = append
        self._emptied: set[str] = set()
        self._shown: set[str] = set()
        self._aged_to: dict[str, int] = {}

    @property
    def results(self) -> TimedResults:
        """What was shown so far; it counts once the epoch is committed."""
        return TimedResults(frozenset(self._emptied), frozenset(self._shown), dict(self._aged_to))

    def maintain(self, relation: Emitted | Periodic | Aged) -> int:
        """Show what is due; return how many rows that were."""
        match relation:
            case Emitted():
                return self._emit(relation)
            case Periodic():
                return self._turn(relation)
            case Aged():
                return self._age(relation)

    def _age(self, relation: Aged) -> int:
        name, source = relation.shape.name, relation.reads[0]
        epoch_time = self._bindings.epoch_time
        before = None if name in self._bindings.first else epoch_time.aged_to.get(name)
        after = max(epoch_time.now_ms * 1000, before or 0)  # a clock that is set back stands still
        trace_versions = self._bindings.versions[source]
        some = that_age(relation, trace_versions.before, before, after)
        binding = self._bindings.bind_segments(source, some, name) if some else None
        many = rows_of(some) > epoch_time.aging_rows and not relation.node.moves
        if binding is not None and before is not None and many:
            sql = next_limits(relation, before, after, binding, epoch_time.aging_rows)
            reached = self._bindings.compute(sql, ()).collect()
            after = reached[0][0] if reached else after
        self._aged_to[name] = after
        sql_or_none = aged(relation, before, after, binding, changed=bool(trace_versions.delta))
        if sql_or_none is None:
            return 0
        return self._append(name, self._bindings.compute(sql_or_none, (source,)), relation)

    def _emit(self, relation: Emitted) -> int:
        name, path = relation.shape.name, relation.horizon.path
        trace = state_trace(relation, self._bindings.relations)
        trace_versions = self._bindings.versions[trace]
        found = thresholds(relation, self._bindings.epoch_time)
        low = found.before
        closing = that_close((*trace_versions.before, *trace_versions.delta), path, found)
        corrects = low is not None and any(
            path not in each.spans or each.spans[path][0] < low for each in trace_versions.delta
        )
        if not closing:
            found = Thresholds(low, low)
            if not corrects:
                return 0
        after = self._bindings.bind_segments(trace, closing, name)
        source = self._bindings.relations.by_name[relation.reads[0]]
        if isinstance(source, Merged):
            before = table(trace, Version.BEFORE) if trace_versions.before else None
            sql = emit_merged(
                relation,
                source,
                found,
                (after, before, table(trace, Version.DELTA)),
                positive=all(
                    each.insert_only for each in (*trace_versions.before, *trace_versions.delta)
                ),
                corrects=corrects,
            )
        else:
            sql = emit_stored(relation, found, after, corrects=corrects)
        return self._append(name, self._bindings.compute(sql, (*relation.reads, name)), relation)

    def _turn(self, relation: Periodic) -> int:
        """Collect the changes of what is shown; show them, added up, when the time has come."""
        name, source = relation.shape.name, relation.reads[0]
        waiting = pending_trace(name)
        is_first = name in self._bindings.first
        changed = self._bindings.state(source).changed
        if is_first:
            self._shown.add(name)
            frame = self._bindings.consolidated_delta(source)
            return self._append(name, frame, relation) if changed else 0
        if changed:
            self._append(waiting, self._bindings.consolidated_delta(source), relation)
        trace_versions = self._bindings.versions[waiting]
        if name not in self._bindings.epoch_time.due:
            return 0
        self._shown.add(name)
        if not trace_versions.before and not trace_versions.delta:
            return 0
        binding = self._bindings.bind_segments(
            waiting, (*trace_versions.before, *trace_versions.delta), name
        )
        self._emptied.add(waiting)
        rows = f"SELECT {columns(relation.shape.columns)}, {WEIGHT} FROM {binding}"
        sql = consolidate(rows, relation.shape.row)
        return self._append(name, self._bindings.compute(sql, ()), relation)


def rows_of(segments: tuple[Segment, ...]) -> int:
    """Return how many rows segments hold."""
    return sum(each.rows for each in segments)
