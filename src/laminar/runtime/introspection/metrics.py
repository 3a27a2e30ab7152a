"""Counters of a running engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from laminar.bridge import BridgeCounters
from laminar.bridge.prefix import PrefixCounters
from laminar.runtime.engine.background_loop import LoopStatus
from laminar.runtime.ingest.source_health import SourceHealth
from laminar.runtime.output.sink_state import SinkStatus
from laminar.runtime.scheduling.scheduler import Counters

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class NodeMetrics:
    """One node since the topology last changed."""

    executions: int
    last_ms: float
    last_rows: int


@dataclass(frozen=True, slots=True)
class CheckpointMetrics:
    """Checkpoints that are kept, under way, and given up; `last` is the newest complete one."""

    completed: int
    """Complete ones that are kept."""
    failed: int
    """Those given up since the database was opened."""
    under_way: int
    last_id: int | None
    last_epoch: int | None
    last_ms: float
    """From the trigger until it was durable."""
    last_bytes: int
    last_new_bytes: int
    """Of the last one, what the one before did not have."""


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """Compactions that failed since the database was opened; nothing else fails with them."""

    failures: int = 0
    error: str | None = None
    """What the last one failed with; None if it did not."""


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """One group of views that commit together; a view in no diamond is a group of its own."""

    epoch: int
    """How often it has committed, ever."""
    age: int
    """How many epochs it is behind."""
    holds: int
    """Epochs that went by without it."""
    retries: int
    """Tries after a failure."""
    failures: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counters of the whole engine; most count from when it was opened."""

    epoch: int
    nodes: Mapping[str, NodeMetrics]
    events_processed: int
    """Rows of changes that nodes have taken in since the topology last changed."""
    events_per_node: Mapping[str, int]
    barriers_processed: int
    """Barriers of checkpoints that have passed all nodes."""
    shared_stages: Mapping[str, Mapping[str, int]]
    """Stage that several read -> reader -> how many of its changes the reader is done with."""
    multicast_publishes: int
    backpressure_waits: int
    """How often the output of a shared stage had to wait for its slowest reader."""
    most_in_flight: int
    """How many epochs were on their way at once, at most."""
    relations: int
    segments: int
    stored_rows: int
    stored_bytes: int
    late_rows: Mapping[str, int]
    """View or table -> rows that were too late, or too far in the future, for it."""
    checkpoints: CheckpointMetrics
    bridges: Mapping[str, BridgeCounters]
    """Source or table -> what came in through its bridge."""
    sources: Mapping[str, SourceHealth]
    """Source with a connector -> how it is doing."""
    hung_calls: Mapping[str, int]
    """Source -> how many calls into its connector have missed their deadline."""
    prefixes: Mapping[str, PrefixCounters]
    """Source that keeps what is used -> rows that came, and rows that were kept."""
    loop: LoopStatus
    """The loop in the background, and what it last met."""
    sinks: Mapping[str, SinkStatus]
    """Sink -> where it stands, and how far behind it is."""
    groups: Mapping[str, GroupMetrics]
    """Members of a group, joined by commas -> what happened to it since the database was opened."""
    compaction: CompactionMetrics = CompactionMetrics()
    """How keeping traces short in the background goes."""
    sparks_lost: int = 0
    """How often another Spark was started in the place of one that was lost."""


def collect_metrics(engine: Engine, loop: LoopStatus | None = None) -> Metrics:
    """Read the counters; nothing is computed."""
    traces = engine.ledger.manifest.traces.values()
    counted, compactor = engine.work.executor.metrics, engine.ledger.compactor
    nodes = (
        {
            name: NodeMetrics(times, counted.node_ms.get(name, 0.0), counted.node_rows.get(name, 0))
            for name, times in counted.executions.items()
        }
        if counted is not None
        else {}
    )
    return Metrics(
        epoch=engine.ledger.epoch,
        nodes=nodes,
        events_processed=counted.events_processed if counted is not None else 0,
        events_per_node=dict(counted.events_per_node) if counted is not None else {},
        barriers_processed=counted.barriers_processed if counted is not None else 0,
        shared_stages=engine.work.executor.shared_stages(),
        multicast_publishes=counted.multicast_publishes if counted is not None else 0,
        backpressure_waits=counted.backpressure_waits if counted is not None else 0,
        most_in_flight=counted.most_in_flight if counted is not None else 0,
        relations=len(engine.defined.catalog.relations.by_name),
        segments=sum(len(trace.segments) for trace in traces),
        stored_rows=sum(trace.rows for trace in traces),
        stored_bytes=sum(trace.bytes for trace in traces),
        late_rows=dict(engine.time.clocks.late),
        bridges=engine.work.inlets.counters(),
        sources=engine.work.inlets.health.all(),
        hung_calls=dict(engine.work.inlets.away.hung),
        prefixes={name: replace(s.counters) for name, s in engine.work.pruning.stages.items()},
        loop=loop or LoopStatus(),
        checkpoints=_checkpoints(engine),
        sinks=engine.outputs.sinks.progress.statuses(),
        groups=_groups(engine),
        compaction=CompactionMetrics(compactor.failures, compactor.error),
        sparks_lost=engine.generation,
    )


def _checkpoints(engine: Engine) -> CheckpointMetrics:
    found = engine.work.checkpoints
    last = found.complete[-1] if found.complete else None
    return CheckpointMetrics(
        completed=len(found.complete),
        failed=len(found.failed),
        under_way=len(found.under_way),
        last_id=last.checkpoint_id if last else None,
        last_epoch=last.epoch if last else None,
        last_ms=last.duration * 1000 if last else 0.0,
        last_bytes=last.bytes if last else 0,
        last_new_bytes=last.new_bytes if last else 0,
    )


def _groups(engine: Engine) -> dict[str, GroupMetrics]:
    scheduler = engine.scheduler
    found: dict[str, GroupMetrics] = {}
    for each in scheduler.groups():
        counted = scheduler.counters.get(each.name, Counters())
        age = engine.ledger.epoch - scheduler.reach(each.members)
        found[each.name] = GroupMetrics(
            each.group.epoch, age, counted.holds, counted.retries, counted.failures
        )
    return found
