"""Where a database works: its folder, its Spark, its clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.runtime.spark.session_functions import PythonFunctions
from laminar.runtime.spark.workspace import Workspace, Workspaces
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Environment:
    """Nothing in it changes as long as the database is open."""

    root: Path
    spark: SparkSession
    workspaces: Workspaces
    clock: Callable[[], int]
    """The wall clock, in milliseconds from 1970."""
    read_only: bool = False
    """Whether another process writes: then nothing is written here, and its epochs are read."""
    functions: PythonFunctions = field(default_factory=PythonFunctions)
    """Code of the user's that statements call."""

    @property
    def store(self) -> SegmentStore:
        """Reads and writes segments outside of epochs."""
        return self.workspaces.first.store

    def workspace(self) -> Workspace:
        """Return a new workspace, whose names no epoch uses."""
        return Workspace.beside(self.root, self.spark, self.functions)
