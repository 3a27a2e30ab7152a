"""Between polling and stepping: one bounded bridge per source, and the only way in.

A producer sends rows, watermarks and barriers into a `PipelineBridge`; a `BridgeConsumer` makes
batches of them by a `BatchPolicy`. A `BackpressureStrategy` says what happens when it is full.
"""

from laminar.bridge.consumer import BridgeConsumer
from laminar.bridge.counters import BridgeCounters
from laminar.bridge.messages import (
    AdvanceWatermark,
    BridgeMessage,
    Checkpoint,
    Eof,
    ProcessBatch,
    Ring1Action,
)
from laminar.bridge.pipeline import PipelineBridge
from laminar.bridge.policy import (
    BackpressureStrategy,
    BatchPolicy,
    DropNewest,
    PauseSource,
    SpillToDisk,
)
from laminar.bridge.spill import SpillLog

__all__ = [
    "AdvanceWatermark",
    "BackpressureStrategy",
    "BatchPolicy",
    "BridgeConsumer",
    "BridgeCounters",
    "BridgeMessage",
    "Checkpoint",
    "DropNewest",
    "Eof",
    "PauseSource",
    "PipelineBridge",
    "ProcessBatch",
    "Ring1Action",
    "SpillLog",
    "SpillToDisk",
]
