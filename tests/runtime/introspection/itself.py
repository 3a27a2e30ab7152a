"""The parts that a database tells of itself: real ones but for Spark, and for what runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from laminar.bridge import BridgeCounters
from laminar.model.state import EngineState
from laminar.model.trace import Trace
from laminar.mv.retry import Failure
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.epoch.executor import CurrentExecutor
from laminar.runtime.epoch.outcome import EpochReport, HeldReport, ViewReport
from laminar.runtime.history.differences import Differences
from laminar.runtime.history.ledger import Contents
from laminar.runtime.history.timeline import Snapshot
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.ingest.source_health import SourceHealth
from laminar.runtime.output.changelog import DagChangelogPropagator
from laminar.runtime.output.outputs import Outputs
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sinks import Publisher
from laminar.runtime.output.subscriptions import Subscriptions
from laminar.runtime.scheduling.view_progress import ViewProgress
from laminar.store.cursors import CursorStore

from ..parts import START, START_MS, Parts, ledger, segment, trace

SCRIPT = """
CREATE SOURCE t (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (retain = 'used');
CREATE TABLE names (k INT NOT NULL, name STRING, PRIMARY KEY (k));
CREATE MATERIALIZED VIEW b AS SELECT k, x FROM t WHERE x > 0;
CREATE MATERIALIZED VIEW c AS SELECT k, SUM(x) AS x FROM t GROUP BY k;
CREATE MATERIALIZED VIEW d AS SELECT b.k, c.x FROM b JOIN c ON b.k = c.k;
CREATE MATERIALIZED VIEW e WITH (schedule = '1h') AS SELECT k FROM names;
CREATE MATERIALIZED VIEW f WITH (refresh_policy = full) AS SELECT k FROM names;
CREATE MATERIALIZED VIEW w AS SELECT TUMBLE_END(ts, '1 minute') AS e, COUNT(*) AS n FROM t
  GROUP BY TUMBLE(ts, '1 minute') EMIT ON WINDOW CLOSE LATE DATA TO missed;
"""

PROGRESS = ViewProgress(
    behind={"b": 1, "c": 1, "d": 1},
    failures={"c": Failure(2, "1 / 0", 0, START_MS + 1000)},
    stepped_ms={"e": START_MS},
    commits={"b": 1, "c": 1, "d": 1, "f": 2},
)
REPORT = EpochReport(
    2,
    7,
    3.5,
    {"f": ViewReport("f", 4, 1.5, "full", 1, 2)},
    held={"c": HeldReport("c", 1, "failed: 1 / 0", is_failure=True)},
)


@dataclass
class Complete:
    """A checkpoint that is kept."""

    checkpoint_id: int = 4
    epoch: int = 1
    created_at: str = START.isoformat()
    bytes: int = 100
    trigger: str = "statement"
    nodes_snapshotted: int = 3
    files: int = 5
    new_files: int = 2
    new_bytes: int = 40
    duration: float = 0.25


@dataclass
class Lost:
    """A checkpoint that was given up."""

    checkpoint_id: int = 5
    epoch: int = 2
    failed_at: str = START.isoformat()
    trigger: str = "time"
    reason: str = "too slow"


class Itself:
    """An engine without Spark, at epoch 2: a diamond is held, one view waits for its turn."""

    def __init__(self, root: Path) -> None:
        self.root = root
        parts = Parts(SCRIPT, epoch=2, progress=PROGRESS)
        self.defined, self.scheduler, self.time = parts.defined, parts.scheduler, parts.time
        self.parts = parts
        self.ledger = ledger(root)
        self.commit(1)
        self.commit(2, {"t": trace(segment(1, rows=5), segment(2)), "names": trace(segment(1))})
        parts.time.begin({"t": {"0": 60_000_000}}, START_MS)
        with parts.time.kept(replace(parts.time.clocks, late={"w": 3}), 2, {}):
            pass
        parts.scheduler.counters = {}
        timeline = self.ledger.timeline
        between = cast("Differences", None)
        log = DagChangelogPropagator(timeline, self.scheduler, between)
        sinks = Publisher(self.defined, log, self.snapshot, CursorStore(root))
        with sinks.adding(SinkDefinition("k", "d", OBJECT, {"token": "hush", "path": "x"})):
            pass
        followed = Subscriptions(self.defined, log, timeline, self.snapshot, root)
        followed.save("mine", 1, {"relation": "f", "definition": ""})
        self.opened = followed.subscribe("b", 1, lambda found, _: found)
        self.outputs = Outputs(log, sinks, followed)
        self.env: Any = SimpleNamespace(root=root, clock=parts.clock, read_only=False)
        pruning = SourcePruning(self.defined, lambda: self.ledger.manifest.offsets)
        failing = SourceHealth("failing", "LMR-8005: gone", 2, 5_000)
        self.work: Any = SimpleNamespace(
            executor=CurrentExecutor(lambda: self.defined.catalog.dag, lambda *_: None),
            inlets=SimpleNamespace(
                counters=lambda: {"t": BridgeCounters(sent=9)},
                away=SimpleNamespace(hung={"t": 1}),
                health=SimpleNamespace(all=lambda: {"t": failing}),
            ),
            pruning=pruning,
            checkpoints=SimpleNamespace(complete=[Complete()], failed=[Lost()], under_way={6: 2}),
        )
        self.applied_settings: Any = SimpleNamespace(text=self.defined.settings.text)
        self.generation = 0

    def commit(self, epoch: int, traces: dict[str, Trace] | None = None) -> None:
        catalog = self.defined.catalog
        state = EngineState(report=REPORT.to_json(START) if epoch == 2 else {})
        contents = Contents(to_json(catalog.in_order()), PROGRESS.saved(state), {})
        self.ledger.describe = lambda *_: contents
        self.ledger.commit(epoch, traces or {}, {"names": 1})
        self.shown = Snapshot(self.ledger.manifest, catalog)

    def snapshot(self) -> Snapshot:
        return self.shown
