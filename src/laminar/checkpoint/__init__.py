"""Durable points to go back to, and the way back."""

from laminar.checkpoint.config import DagCheckpointConfig, RecoveryConfig, RecoveryMode
from laminar.checkpoint.coordinator import CheckpointProgress, DagCheckpointCoordinator
from laminar.checkpoint.metadata import DagCheckpointMetadata
from laminar.checkpoint.recovery import DagRecoveryManager
from laminar.checkpoint.recovery_report import DagRecoveryMetrics, RecoveryWarning
from laminar.checkpoint.storage import CheckpointStorage

__all__ = [
    "CheckpointProgress",
    "CheckpointStorage",
    "DagCheckpointConfig",
    "DagCheckpointCoordinator",
    "DagCheckpointMetadata",
    "DagRecoveryManager",
    "DagRecoveryMetrics",
    "RecoveryConfig",
    "RecoveryMode",
    "RecoveryWarning",
]
