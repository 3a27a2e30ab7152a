"""Relations that show their rows when time says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from laminar.delta.aging import aged, next_limits
from laminar.delta.change import Version, columns, consolidate, table
from laminar.delta.emission import Thresholds, emit_merged, emit_stored
from laminar.delta.program import Aged, Emitted, Maintained, Merged, Periodic
from laminar.model.trace import WEIGHT, Segment
from laminar.runtime.catalog.storage_plan import pending_trace
from laminar.runtime.event_time.due import state_trace, that_age, that_close, thresholds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.relations.bindings import Bindings

Append = Callable[[str, "DataFrame", Maintained], int]
"""Runs a statement and adds its rows to a trace's delta."""


class InTime:
    """One epoch's emissions."""

    def __init__(self, faces: Bindings, append: Append) -> None:
        self._faces = faces
        self._append = append
        self.emptied: set[str] = set()  # traces of which everything was shown
        self.shown: set[str] = set()  # views whose turn it was
        self.aged_to: dict[str, int] = {}  # relation -> the time that its rows are those of

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
        turn = self._faces.turn
        before = None if name in self._faces.first else turn.aged_to.get(name)
        after = max(turn.now_ms * 1000, before or 0)  # a clock that is set back stands still
        moment = self._faces.moments[source]
        some = that_age(relation, moment.before, before, after)
        face = self._faces.bind_segments(source, some, name) if some else None
        if face is not None and before is not None and rows_of(some) > turn.aging_rows:
            sql = next_limits(relation, before, after, face, turn.aging_rows)
            reached = self._faces.compute(sql, ()).collect()
            after = reached[0][0] if reached else after
        self.aged_to[name] = after
        sql_or_none = aged(relation, before, after, face, changed=bool(moment.delta))
        if sql_or_none is None:
            return 0
        return self._append(name, self._faces.compute(sql_or_none, (source,)), relation)

    def _emit(self, relation: Emitted) -> int:
        name, path = relation.shape.name, relation.horizon.path
        trace = state_trace(relation, self._faces.relations)
        moment = self._faces.moments[trace]
        found = thresholds(relation, self._faces.turn)
        low = found.before
        closing = that_close((*moment.before, *moment.delta), path, found)
        corrects = low is not None and any(
            path not in each.spans or each.spans[path][0] < low for each in moment.delta
        )
        if not closing:
            found = Thresholds(low, low)
            if not corrects:
                return 0
        after = self._faces.bind_segments(trace, closing, name)
        source = self._faces.relations.by_name[relation.reads[0]]
        if isinstance(source, Merged):
            before = table(trace, Version.BEFORE) if moment.before else None
            sql = emit_merged(
                relation,
                source,
                found,
                (after, before, table(trace, Version.DELTA)),
                positive=all(each.insert_only for each in (*moment.before, *moment.delta)),
                corrects=corrects,
            )
        else:
            sql = emit_stored(relation, found, after, corrects=corrects)
        return self._append(name, self._faces.compute(sql, (*relation.reads, name)), relation)

    def _turn(self, relation: Periodic) -> int:
        """Collect the changes of what is shown; show them, added up, when the time has come."""
        name, source = relation.shape.name, relation.reads[0]
        waiting = pending_trace(name)
        is_first = name in self._faces.first
        changed = self._faces.state(source).changed
        if is_first:
            self.shown.add(name)
            frame = self._faces.consolidated_delta(source)
            return self._append(name, frame, relation) if changed else 0
        if changed:
            self._append(waiting, self._faces.consolidated_delta(source), relation)
        moment = self._faces.moments[waiting]
        if name not in self._faces.turn.due:
            return 0
        self.shown.add(name)
        if not moment.before and not moment.delta:
            return 0
        face = self._faces.bind_segments(waiting, (*moment.before, *moment.delta), name)
        names = relation.shape.columns
        self.emptied.add(waiting)
        sql = consolidate(f"SELECT {columns(names)}, {WEIGHT} FROM {face}", names)
        return self._append(name, self._faces.compute(sql, ()), relation)


def rows_of(segments: tuple[Segment, ...]) -> int:
    """Return how many rows segments hold."""
    return sum(each.rows for each in segments)
