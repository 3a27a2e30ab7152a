"""Epochs, checkpoints, counters and settings, as relations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from laminar.runtime.catalog.settings import PREFIX, SETTINGS
from laminar.runtime.introspection.metrics import collect_metrics
from laminar.runtime.introspection.system.table import Rows, SystemTable, columns
from laminar.runtime.spark.fixed_settings import KNOWN

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.timeline import Snapshot


def _epochs(engine: Engine, _snapshot: Snapshot) -> Rows:
    for manifest in engine.ledger.timeline.kept():
        report = manifest.state.report
        traces = manifest.traces.values()
        yield (
            manifest.epoch,
            manifest.revision,
            datetime.fromisoformat(manifest.committed_at),
            report.get("rows_in"),
            report.get("duration_ms"),
            sum(len(trace.segments) for trace in traces),
            sum(trace.rows for trace in traces),
            sum(trace.bytes for trace in traces),
        )


def _checkpoints(engine: Engine, _snapshot: Snapshot) -> Rows:
    for each in engine.work.checkpoints.complete:
        yield (
            each.checkpoint_id,
            each.epoch,
            datetime.fromisoformat(each.created_at),
            each.bytes,
            "complete",
            each.trigger,
            each.nodes_snapshotted,
            each.files,
            each.new_files,
            each.new_bytes,
            each.duration * 1000,
            None,
        )
    for checkpoint_id, epoch in engine.work.checkpoints.under_way.items():
        yield checkpoint_id, epoch, None, None, "under way", *(None,) * 7
    for lost in engine.work.checkpoints.failed:
        at = datetime.fromisoformat(lost.failed_at)
        unknown = (None,) * 5
        yield (
            lost.checkpoint_id,
            lost.epoch,
            at,
            None,
            "failed",
            lost.trigger,
            *unknown,
            lost.reason,
        )


def _metrics(engine: Engine, _snapshot: Snapshot) -> Rows:
    found = collect_metrics(engine)
    for name in (
        "epoch",
        "events_processed",
        "barriers_processed",
        "multicast_publishes",
        "backpressure_waits",
        "most_in_flight",
        "relations",
        "segments",
        "stored_rows",
        "stored_bytes",
    ):
        yield name, None, float(getattr(found, name))
    for node, counted in found.nodes.items():
        for name in ("executions", "last_ms", "last_rows"):
            yield name, node, float(getattr(counted, name))
    for node, count in found.events_per_node.items():
        yield "events", node, float(count)
    for name in ("completed", "failed", "under_way", "last_ms", "last_bytes", "last_new_bytes"):
        yield f"checkpoints_{name}", None, float(getattr(found.checkpoints, name))
    for source, counters in found.bridges.items():
        for name in ("sent", "dropped", "spilled", "spilled_bytes", "paused_seconds", "waiting"):
            yield f"bridge_{name}", source, float(getattr(counters, name))
    for source, hung in found.hung_calls.items():
        yield "source_hung_calls", source, float(hung)
    for source, prefix in found.prefixes.items():
        yield "prefix_rows_in", source, float(prefix.rows_in)
        yield "prefix_rows_kept", source, float(prefix.rows_kept)
    for relation, count in found.late_rows.items():
        yield "late_rows", relation, float(count)
    for group, each in found.groups.items():
        for name in ("epoch", "age", "holds", "retries", "failures"):
            yield f"group_{name}", group, float(getattr(each, name))


def _settings(engine: Engine, snapshot: Snapshot) -> Rows:
    for name, each in SETTINGS.items():
        yield (
            f"{PREFIX}{name}",
            engine.applied_settings.text(name),
            each.default,
            name in engine.defined.settings.given,
            each.kind,
            each.about,
        )
    yield from _spark_settings(snapshot.manifest.state.spark)


def _spark_settings(fixed: Mapping[str, str]) -> Rows:
    """Those of Spark that are part of the database."""
    takes = "fixed when the database was created"
    for name, value in sorted(fixed.items()):
        yield name, value, None, False, takes, KNOWN.get(name, "set by who created the database")


TABLES = (
    SystemTable(
        "epochs",
        columns(
            "epoch bigint, revision int, committed_at timestamp, rows_in bigint,"
            " duration_ms double, segments bigint, stored_rows bigint, stored_bytes bigint"
        ),
        _epochs,
    ),
    SystemTable(
        "checkpoints",
        columns(
            "checkpoint_id bigint, epoch bigint, created_at timestamp, bytes bigint,"
            " status string, trigger string, nodes int, files bigint, new_files bigint,"
            " new_bytes bigint, duration_ms double, error string"
        ),
        _checkpoints,
    ),
    SystemTable("metrics", columns("name string, node string, value double"), _metrics),
    SystemTable(
        "settings",
        columns(
            "name string, value string, default_value string, is_set boolean, takes string,"
            " about string"
        ),
        _settings,
    ),
)
