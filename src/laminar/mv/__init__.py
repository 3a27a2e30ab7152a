"""Materialized views: their definitions, who reads whom, and how far event time has come."""

from laminar.mv.registry import MvRegistry
from laminar.mv.view import MaterializedView, MvState
from laminar.mv.watermark import CascadingWatermarkTracker, DependencyGraph

__all__ = [
    "CascadingWatermarkTracker",
    "DependencyGraph",
    "MaterializedView",
    "MvRegistry",
    "MvState",
]
