"""Between polling and stepping: one bounded bridge per source, and the only way in.

A producer sends rows, watermarks and barriers into a `PipelineBridge`; a `BridgeConsumer` makes
batches of them by a `BatchPolicy`. A `BackpressureStrategy` says what happens when it is full.
"""

from laminar.bridge.actions import AdvanceWatermark, Checkpoint, Eof, ProcessBatch, Ring1Action
from laminar.bridge.consumer import BridgeConsumer
from laminar.bridge.counters import BridgeCounters
from laminar.bridge.messages import BridgeMessage
from laminar.bridge.pipeline import PipelineBridge
from laminar.bridge.policy import BatchPolicy
from laminar.bridge.spill import SpillLog
from laminar.bridge.strategy import BackpressureStrategy, DropNewest, PauseSource, SpillToDisk

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
