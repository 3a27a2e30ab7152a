"""Filling a relation from what its inputs hold: everything is one delta from nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.delta.change import Version, consolidate, quote
from laminar.delta.program import Program
from laminar.model.trace import WEIGHT, Segment, Trace
from laminar.model.trace_name import partial_trace
from laminar.runtime.catalog.storage_plan import StoragePlan
from laminar.runtime.epoch.maintainer import FullRunner, Maintainer
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Filler:
    """Computes rows that are missing, at the current epoch; commits nothing."""

    def __init__(self, session: SparkSession, store: SegmentStore, full: FullRunner) -> None:
        self._session = session
        self._store = store
        self._full = full

    def fill(
        self,
        program: Program,
        relations: StoragePlan,
        traces: Mapping[str, Trace],
        epoch: int,
        epoch_time: EpochTime,
    ) -> dict[str, Trace]:
        """Return the traces with those of a view computed, at an epoch that its inputs have.

        Before `epoch_time` there was nothing.
        """
        own = frozenset(each.shape.name for each in program.relations)
        versions = {
            name: TraceVersions(trace_versions.schema, (), trace_versions.before)
            for name, trace_versions in versions_of(relations, traces, epoch).items()
        }
        # Once per view, so the sure way: no expression sees a row that was taken back.
        careful = any(trace_versions.has_retractions for trace_versions in versions.values())
        bindings = Bindings(
            self._session,
            self._store,
            relations,
            versions,
            first=own,
            careful=careful,
            epoch_time=epoch_time,
        )
        maintainer = Maintainer(bindings, self._store, epoch, self._full)
        for relation in program.relations:
            maintainer.maintain(relation)
        made = {
            trace: Trace(versions[trace].schema, versions[trace].delta)
            for name in own
            for trace in (name, partial_trace(name))
            if trace in versions and versions[trace].delta
        }
        return {**traces, **made}

    def store_rows(
        self, name: str, relations: StoragePlan, traces: Mapping[str, Trace], stops: Iterable[int]
    ) -> dict[str, Trace]:
        """Store a relation whose rows exist by definition, or as accumulators, only.

        It must be possible to read it afterwards at every epoch that it could be read at before.
        So for each of `stops`, oldest first, what came since the one before is a segment.
        """
        graph = replace(relations, finished=relations.finished - {name})
        rows = sum(trace.rows for trace in traces.values())
        names, times = relations.by_name[name].shape.columns, relations.times(name)
        segments: list[Segment] = []
        before: DataFrame | None = None
        schema = ""
        for stop in stops:
            versions = versions_of(relations, traces, stop)
            schema = versions[name].schema
            after = Bindings(self._session, self._store, graph, versions).frame(name, Version.AFTER)
            delta = after.select(*map(quote, names), WEIGHT)
            if before is not None:
                delta = delta.unionByName(before.withColumn(WEIGHT, -before[WEIGHT]))
            before = after.select(*map(quote, names), WEIGHT)
            delta.createOrReplaceTempView("__storing")
            summed = self._session.sql(consolidate("SELECT * FROM __storing", names))
            segment = self._store.materialise(name, stop, summed, rows, times)
            if segment is not None:
                segments.append(segment)
        return {**traces, name: Trace(schema, tuple(segments))} if segments else dict(traces)
