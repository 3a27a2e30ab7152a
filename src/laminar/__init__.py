"""Cascading materialized views on Apache Spark: incremental, exact, mutually consistent.

Every public name is in the table below. Modules are imported when a name of theirs is first used,
so that `import laminar` costs next to nothing and never starts, or even loads, Spark. A type
checker reads `__init__.pyi` instead, which `tools/public_stub.py` renders from the table.
"""

from __future__ import annotations

from importlib import import_module

_NAMES = {
    "bridge": """
        AdvanceWatermark BackpressureStrategy BatchPolicy BridgeConsumer BridgeCounters
        BridgeMessage Checkpoint DropNewest Eof PauseSource PipelineBridge ProcessBatch Ring1Action
        SpillLog SpillToDisk
    """,
    "checkpoint": """
        CheckpointProgress DagCheckpointConfig DagCheckpointCoordinator DagCheckpointMetadata
        DagRecoveryManager DagRecoveryMetrics RecoveryConfig RecoveryMode RecoveryWarning
    """,
    "connectors": """
        AcknowledgedSource ArrowSource ClosingSource ExplainingSource Offset Option OptionType
        SinkConnector SinkFactory SinkSpec Source SourceFactory
        SourceSpec register_sink register_source sink_connectors source_connectors
    """,
    "dag": """
        BarrierAligner BarrierType CheckpointBarrier Custom DagBuilder DagChannelType DagEdge
        DagNode DagNodeType FanOutBuilder HashBy MAX_PORTS MulticastBuffer Operator
        PartitioningStrategy RoundRobin RoutingEntry RoutingTable SharedStageMetadata Single
        StatefulOperator StreamingDag derive_channel_type operator_kind
    """,
    "dag.diamond": """
        ConsistencyGroup Diamond DiamondConsistency DiamondSchedulePolicy
        compute_consistency_groups detect_diamonds is_group_due
    """,
    "dag.watermark": "DagWatermarkTracker PartitionedWatermark WatermarkAlignmentGroup",
    "errors": """
        AmbiguousColumns Backpressure BackpressureFull BadArgument BadOffset BadOption BadReference
        BadRequest BadSetting BadViewOption BridgeClosed BridgeError CheckViolated
        CheckpointCorrupt CheckpointTimeout ColumnOutOfReach ConnectorError ConnectorHung
        CorrelatedTooFar CursorCorrupt CycleDetected DagError DataError DatabaseClosed
        DatabaseLocked DatabaseNotFound DependentRefused DisconnectedNode DuplicateEdge
        DuplicateKey DuplicateName DuplicateNode EpochExists EpochNotFound EventTimeError
        FanOutLimitExceeded FixedSparkSetting ForeignCode FunctionExists FunctionInUse
        FunctionNotRegistered GeneratedOtherwise HasDependents InvalidCall InvalidFunction
        InvalidOperator InvalidPort InvalidQuery InvalidSchema InvalidSetting JavaUnavailable
        LaminarError LoopFailed ManifestCorrupt MergeConflict MissingArgument MissingOption
        MvCycleDetected MvError NoCheckpointFound NoCommonEpoch NoWatermark NoWindow NodeNotFound
        NonDeterministic NotIncremental NotRetained NotSupported OperatorError OperatorNotFound
        OptionIsFixed ParameterInDefinition PortUnavailable ReadOnlyDatabase ReadTooLate
        RecoveryFailed ReferenceNotFound RelationExists RowDoesNotFit RowDoesNotMatch
        RowNotDelivered RowNotFound
        RuleBroken SchemaExists SchemaMismatch SchemaNotEmpty SegmentCorrupt SegmentMissing
        SinkBehind SinkHolds SourceAway SourceError SourceGap SourceNotFound SourceReadFailed
        SparkAccessUnavailable SparkLost SparkUnavailable SpillCorrupt SqlError SqlSyntaxError
        StoreError StoreUnreadable StoreUnwritable SubscriptionEnded TableRedefined
        TakesNothingBack TextTooLong
        TooManyCheckpoints UnknownCatalog UnknownColumn UnknownConnector UnknownFunction
        UnknownOption UnknownRelation UnknownSchema UnknownSetting UnsupportedAddress
        UnsupportedFormat UnsupportedSparkSetting UnusableSparkSetting UnusedArgument ViewNotFound
        WriteWithinEpoch WriterBusy
    """,
    "model": "EdgeId EpochId Field NodeId Schema StatePartitionId",
    "mv": "CascadingWatermarkTracker MaterializedView MvRegistry MvState",
    "result": "Changes Result",
    "runtime.catalog.compile_view": "RefreshPolicy",
    "runtime.catalog.settings": "TimeSettings",
    "runtime.engine.background_loop": "LoopStatus",
    "runtime.epoch.executor": "DagExecutor",
    "runtime.epoch.python_operators": "OperatorContext",
    "runtime.epoch.outcome": "EpochReport ViewReport",
    "runtime.epoch.view_executor": "MvPipelineExecutor",
    "runtime.ingest.connector_bridge": "ConnectorDagBridge",
    "runtime.introspection.metrics": "Metrics NodeMetrics",
    "runtime.output.changelog": "DagChangelogPropagator",
    "runtime.output.subscriptions": "Subscription",
    "session": "Database connect",
}
"""Module of this package -> the public names that come from it."""

_HOMES = {name: f"laminar.{home}" for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    # Kept, so that the next use is a plain lookup.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
