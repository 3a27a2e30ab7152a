"""Filling a relation from what its inputs hold: everything is one delta from nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.delta.program import Program
from laminar.model.trace import Trace
from laminar.runtime.faces import Faces, Moment, moments_of
from laminar.runtime.maintain import FullRunner, Maintainer
from laminar.runtime.relations import Relations, partial_trace
from laminar.runtime.watermarks import Turn
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Filler:
    """Computes rows that are missing, at the current epoch; commits nothing."""

    def __init__(self, session: SparkSession, store: SegmentStore, full: FullRunner) -> None:
        self._session = session
        self._store = store
        self._full = full

    def fill(
        self,
        program: Program,
        relations: Relations,
        traces: Mapping[str, Trace],
        epoch: int,
        turn: Turn,
    ) -> dict[str, Trace]:
        """Return the traces with those of a view computed; before `turn` there was nothing."""
        own = frozenset(each.shape.name for each in program.relations)
        moments = {
            name: Moment(moment.schema, (), moment.before)
            for name, moment in moments_of(relations, traces).items()
        }
        # Once per view, so the sure way: no expression sees a row that was taken back.
        careful = any(moment.has_retractions for moment in moments.values())
        faces = Faces(
            self._session, self._store, relations, moments, first=own, careful=careful, turn=turn
        )
        maintainer = Maintainer(faces, self._store, epoch, self._full)
        for relation in program.relations:
            maintainer.maintain(relation)
        made = {
            trace: Trace(moments[trace].schema, moments[trace].delta)
            for name in own
            for trace in (name, partial_trace(name))
            if trace in moments and moments[trace].delta
        }
        return {**traces, **made}

    def store_rows(
        self, name: str, relations: Relations, traces: Mapping[str, Trace], epoch: int
    ) -> dict[str, Trace]:
        """Store a relation whose rows exist by definition, or as accumulators, only."""
        before = replace(relations, finished=relations.finished - {name})
        moments = moments_of(relations, traces)
        faces = Faces(self._session, self._store, before, moments)
        rows = sum(trace.rows for trace in traces.values())
        times = relations.times(name)
        segment = self._store.materialise(name, epoch, faces.content(name), rows, times)
        if segment is None:
            return dict(traces)
        return {**traces, name: Trace(moments[name].schema, (segment,))}
