"""One epoch: ranges in, a committed manifest out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from laminar.errors import ConnectorError
from laminar.model.trace import Trace
from laminar.runtime import late
from laminar.runtime.epoch_task import EpochTask
from laminar.runtime.executor import Delta
from laminar.runtime.faces import Faces, Moment, moments_of
from laminar.runtime.future import as_late
from laminar.runtime.ingest import Range
from laminar.runtime.maintain import Maintainer
from laminar.runtime.operators import restore
from laminar.runtime.refusals import first_sentence
from laminar.runtime.relations import partial_trace
from laminar.runtime.report import EpochReport
from laminar.runtime.spark import suit
from laminar.runtime.watermarks import Turn
from laminar.store import discard

if TYPE_CHECKING:
    from laminar.runtime.engine import Engine


class Epochs:
    """Carries an engine from one epoch to the next."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sizes: dict[str, int] = {}  # partial rows that each aggregate made last

    def run(self, taken: list[Range]) -> EpochReport:
        """Run one epoch over these ranges and commit it."""
        engine = self._engine
        started = time.perf_counter()
        started_at = datetime.now(UTC)
        epoch = engine.manifest.epoch + 1
        traces = engine.compactor.adopt(engine.manifest.traces)
        moments = moments_of(engine.catalog.relations, traces)
        rows_in, too_late, largest = self._ingest(taken, moments, epoch)
        held = sum(trace.rows for trace in traces.values())
        for session in (engine.work, engine.full):
            suit(session, changed=rows_in, held=held)
        turn = engine.time.begin(largest)
        try:
            task, faces, maintainer = self._run_nodes(moments, taken, epoch, turn)
        except Exception:
            engine.time.watermarks.back()
            discard(engine.root, (f for m in moments.values() for s in m.delta for f in s.files))
            engine.prefetch.forget()
            raise
        moments = faces.moments
        self._sizes = {
            name.removesuffix(partial_trace("")): moment.changed_rows
            for name, moment in moments.items()
            if moment.delta and name.endswith(partial_trace(""))
        }
        for name, moment in moments.items():
            if moment.delta:
                traces[name] = Trace(moment.schema, (*moment.before, *moment.delta))
        too_late += maintainer.late.batches
        clocks = engine.time.after(turn, maintainer.in_time, too_late, traces)
        late.keep(too_late, engine.store, epoch, traces, engine.limits.late_rows_kept)
        offsets = {**engine.manifest.offsets, **{each.table: each.end for each in taken}}
        counts = {each.relation: each.count for each in too_late}
        report = EpochReport(epoch, rows_in, _since(started), task.reports, counts)
        with engine.time.kept(clocks, engine.holding.held()):
            engine.commit(epoch, traces, offsets, report.to_json(started_at))
        for each in taken:
            if each.table not in engine.sources:
                engine.pending.drop_through(each.table, each.end)
        self._publish(epoch, faces)
        if engine.settings.is_on("compaction"):
            relations = engine.catalog.relations
            engine.compactor.submit(engine.manifest.traces, relations, epoch, engine.time.useless())
        return replace(report, duration_ms=_since(started))

    def _run_nodes(
        self, ingested: dict[str, Moment], taken: list[Range], epoch: int, turn: Turn
    ) -> tuple[EpochTask, Faces, Maintainer]:
        """Run all nodes; if that fails, again without rows that are there and taken back.

        A trace may hold a row and its retraction. Usually it is cheaper to compute with both than
        to find out that they cancel, but an expression may fail for a row that is gone.
        """
        try:
            return self._try_nodes(ingested, taken, epoch, turn, careful=False)
        except Exception:
            if not any(moment.has_retractions for moment in ingested.values()):
                raise
        return self._try_nodes(ingested, taken, epoch, turn, careful=True)

    def _try_nodes(
        self,
        ingested: dict[str, Moment],
        taken: list[Range],
        epoch: int,
        turn: Turn,
        *,
        careful: bool,
    ) -> tuple[EpochTask, Faces, Maintainer]:
        engine = self._engine
        relations = engine.catalog.relations
        faces = Faces(
            engine.work, engine.store, relations, dict(ingested), careful=careful, turn=turn
        )
        maintainer = Maintainer(faces, engine.store, epoch, engine.run_full)
        late_kept = engine.limits.late_rows_kept
        task = EpochTask(
            engine.catalog, faces, maintainer, engine.holding.held(), self._sizes, late_kept
        )
        changed = {
            each.table: Delta(each.table, ingested[each.table].changed_rows)
            for each in taken
            if ingested[each.table].delta
        }
        try:
            engine.current_executor().run_epoch(
                task, changed, engine.time.in_motion(turn, engine.manifest.traces)
            )
        except Exception:
            kept = {f for m in ingested.values() for s in m.delta for f in s.files}
            made = {f for m in faces.moments.values() for s in m.delta for f in s.files}
            discard(engine.root, made - kept)
            restore(engine.operators, engine.manifest.state.get("operators", {}))
            raise
        return task, faces, maintainer

    def _publish(self, epoch: int, faces: Faces) -> None:
        """Hand the epoch's deltas to the sinks, now that it is committed."""
        for sink in self._engine.sinks:
            if faces.state(sink.relation).changed:
                try:
                    sink.write(epoch, faces.consolidated_delta(sink.relation))
                except Exception as error:
                    raise ConnectorError(sink.name, first_sentence(error)) from error
        self._engine.publisher.publish(epoch, faces)

    def _ingest(
        self, taken: list[Range], moments: dict[str, Moment], epoch: int
    ) -> tuple[int, list[late.LateBatch], dict[str, Mapping[str, int]]]:
        """Read all ranges.

        Return how many rows there are, those too far in the future, and how far in time each part
        of each table has come.
        """
        engine = self._engine
        tables = engine.tables()
        rows = 0
        ahead: list[late.LateBatch] = []
        largest: dict[str, Mapping[str, int]] = {}
        for each in taken:
            table = tables[each.table]
            done = engine.prefetch.take(each, epoch) or engine.ingest.read(each, table, epoch)
            segment = done.segment
            if segment is not None:
                rows += segment.rows
                segment = engine.upserts.resolve(table, segment, moments[each.table].before, epoch)
            if segment is not None:
                moments[each.table] = replace(moments[each.table], delta=(segment,))
            if done.largest:
                largest[each.table] = done.largest
            if done.ahead is not None and table.event_time is not None:
                kept = engine.limits.late_rows_kept
                ahead.append(as_late(each.table, table.event_time, done.ahead, epoch, kept))
        for each in taken:
            if each.table in engine.sources:
                source = engine.sources[each.table]
                engine.prefetch.start(tables[each.table], source, each.end, epoch + 1)
        return rows, ahead, largest


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
