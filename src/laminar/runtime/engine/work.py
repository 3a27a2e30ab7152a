"""The parts that do the work of a database: rows in, epochs, what is stored, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.runtime.engine.checkpoints import Checkpoints
from laminar.runtime.epoch.executor import CurrentExecutor
from laminar.runtime.epoch.full_query import FullQueries
from laminar.runtime.epoch.materialization import Materialization
from laminar.runtime.epoch.pipelining import EpochPipeline
from laminar.runtime.epoch.runner import EpochRunner
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.pruning import SourcePruning


@dataclass(frozen=True, slots=True)
class Work:
    """Each was handed the parts it uses; none of them is ever replaced."""

    pruning: SourcePruning
    inlets: ConnectorDagBridge
    executor: CurrentExecutor
    full: FullQueries
    runner: EpochRunner
    pipeline: EpochPipeline
    materialization: Materialization
    checkpoints: Checkpoints
