"""The state of a database as Prometheus reads it; docs/console.md lists the names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from laminar.console.folder import FolderState
from laminar.model.event_time import END_OF_TIME
from laminar.runtime.catalog.definitions import TableDefinition

CONTENT_TYPE = CONTENT_TYPE_LATEST

STATES = ("running", "paused", "held", "scheduled", "failing", "suspended")
"""All that a view may be in, so that a state nobody is in is 0 and not absent."""


def metrics_text(now: FolderState) -> bytes:
    """Return all metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Moment(now))
    return generate_latest(registry)


class _Moment(Collector):
    def __init__(self, now: FolderState) -> None:
        self._now = now

    def collect(self) -> Iterable[Metric]:
        now = self._now
        yield from _epoch(now)
        yield from _views(now)
        yield from _relations(now)
        yield from _sources(now)
        yield from _time(now)
        yield from _checkpoints(now)


def _epoch(now: FolderState) -> Iterator[Metric]:
    newest = now.epochs[-1]
    yield GaugeMetricFamily("laminar_epoch", "The newest epoch.", newest.epoch)
    yield GaugeMetricFamily(
        "laminar_epoch_committed_timestamp_seconds",
        "When the newest epoch was committed.",
        _seconds(newest.committed_at),
    )
    if newest.duration_ms is not None:
        yield GaugeMetricFamily(
            "laminar_epoch_duration_seconds",
            "How long the newest epoch took.",
            newest.duration_ms / 1000,
        )
    if newest.rows_in is not None:
        yield GaugeMetricFamily(
            "laminar_epoch_rows_in", "Rows that the newest epoch read.", newest.rows_in
        )
    yield GaugeMetricFamily(
        "laminar_oldest_epoch", "The oldest epoch that can be read.", now.status.oldest_epoch
    )


def _views(now: FolderState) -> Iterator[Metric]:
    rows = GaugeMetricFamily(
        "laminar_view_rows_out", "Rows of a view's change in the newest epoch.", labels=["view"]
    )
    took = GaugeMetricFamily(
        "laminar_view_duration_seconds",
        "How long a view took in the newest epoch.",
        labels=["view"],
    )
    for view in now.epochs[-1].views:
        rows.add_metric([view.name], view.rows)
        took.add_metric([view.name], view.ms / 1000)
    counts = GaugeMetricFamily("laminar_views", "Views by state.", labels=["state"])
    states = GaugeMetricFamily(
        "laminar_view_state", "1 for the state that a view is in.", labels=["view", "state"]
    )
    defined = now.graph.definitions
    found = [e for e in now.status.relations if not isinstance(defined[e.name], TableDefinition)]
    for each in found:
        states.add_metric([each.name, each.state], 1)
    for state in STATES:
        counts.add_metric([state], sum(each.state == state for each in found))
    yield from (rows, took, counts, states)


def _sources(now: FolderState) -> Iterator[Metric]:
    rows = CounterMetricFamily(
        "laminar_source_rows",
        "Rows of a source that epochs have dealt with, by what became of them.",
        labels=["source", "fate"],
    )
    states = GaugeMetricFamily(
        "laminar_source_state", "1 for the state that a source is in.", labels=["source", "state"]
    )
    for name, counts in now.manifest.state.counts.items():
        for fate, count in counts.to_json().items():
            rows.add_metric([name, fate], count)
    defined = now.graph.definitions
    for each in now.status.relations:
        if isinstance(defined[each.name], TableDefinition):
            states.add_metric([each.name, each.state], 1)
    yield from (rows, states)


_OF_RELATIONS = {
    "rows": ("rows", "Rows of a relation, where they are stored as rows."),
    "stored_rows": ("stored_rows", "Rows in its segments, accumulators and retractions included."),
    "bytes": ("bytes", "Size of its segments."),
    "segments": ("segments", "Segments of a relation."),
    "waiting_rows": ("pending_rows", "Pushed rows that no epoch has read yet."),
    "epoch": ("epoch", "The epoch that its rows are of."),
}
"""Field of a relation's status -> end of the metric's name, and its meaning."""


def _relations(now: FolderState) -> Iterator[Metric]:
    for field, (name, meaning) in _OF_RELATIONS.items():
        family = GaugeMetricFamily(f"laminar_relation_{name}", meaning, labels=["relation"])
        for each in now.status.relations:
            value = getattr(each, field)
            if value is not None:
                family.add_metric([each.name], value)
        yield family


def _time(now: FolderState) -> Iterator[Metric]:
    at = GaugeMetricFamily(
        "laminar_watermark_timestamp_seconds",
        "How far event time has come; none for a source that has ended.",
        labels=["relation"],
    )
    lag = GaugeMetricFamily(
        "laminar_watermark_lag_seconds",
        "How far a watermark is behind the clock.",
        labels=["relation"],
    )
    for name, mark in now.status.watermarks.items():
        if mark < END_OF_TIME:
            at.add_metric([name], mark / 1_000_000)
            lag.add_metric([name], now.read_at.timestamp() - mark / 1_000_000)
    late = CounterMetricFamily(
        "laminar_late_rows",
        "Rows that were too late, or too far in the future.",
        labels=["relation"],
    )
    for name, count in now.status.late_rows.items():
        late.add_metric([name], count)
    yield from (at, lag, late)


def _checkpoints(now: FolderState) -> Iterator[Metric]:
    found = now.status.checkpoints
    yield GaugeMetricFamily("laminar_checkpoints", "Complete checkpoints.", len(found))
    if found:
        yield GaugeMetricFamily(
            "laminar_checkpoint_epoch", "The epoch of the newest checkpoint.", found[-1].epoch
        )
        yield GaugeMetricFamily(
            "laminar_checkpoint_age_seconds",
            "Age of the newest checkpoint.",
            now.read_at.timestamp() - _seconds(found[-1].created_at),
        )


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
