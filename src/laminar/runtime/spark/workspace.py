"""Where a database works, and each of its epochs: a Spark session with names of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.runtime.spark.access import access_to
from laminar.runtime.spark.java_process import on_renewal
from laminar.runtime.spark.lifeline import Lifeline
from laminar.runtime.spark.session import own_session, partitions
from laminar.runtime.spark.session_functions import PythonFunctions
from laminar.runtime.spark.statement_cache import StatementCache
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def store_in(session: SparkSession, root: Path) -> SegmentStore:
    """Return what reads segments in a session, also when that was moved to another Spark."""
    store = SegmentStore(root, session)
    on_renewal(session, store.forget_frames)
    return store


@dataclass(frozen=True, slots=True)
class Workspace:
    """A session, the store that reads and writes segments in it, and what epochs read it through.

    Bindings are bound to names of a session, so two epochs that overlap need one each.
    """

    session: SparkSession
    store: SegmentStore
    statement_cache: StatementCache | None

    @classmethod
    def beside(
        cls, root: Path, spark: SparkSession, functions: PythonFunctions | None = None
    ) -> Workspace:
        """Return a workspace of a new session beside the user's."""
        session = own_session(spark, partitions())
        if functions is not None:
            functions.adopt(session)
        store = store_in(session, root)
        return cls(session, store, access_to(spark).statement_cache(session, store))


class Workspaces:
    """As many workspaces as epochs may overlap; there is always a first."""

    def __init__(
        self, root: Path, spark: SparkSession, functions: PythonFunctions | None = None
    ) -> None:
        self._root = root
        self._spark = spark
        self._functions = functions
        self._all = [Workspace.beside(root, spark, functions)]

    @property
    def first(self) -> Workspace:
        """Where definitions are filled."""
        return self._all[0]

    def of(self, epoch: int) -> Workspace:
        """Return where an epoch works; two in a row never meet."""
        return self._all[epoch % len(self._all)]

    def furnish(self, count: int, collect_limit: int) -> None:
        """Have at least so many workspaces, and let each carry deltas of so many rows by itself."""
        while len(self._all) < count:
            self._all.append(Workspace.beside(self._root, self._spark, self._functions))
        for workspace in self._all:
            workspace.store.collect_limit = collect_limit


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
    lifeline: Lifeline = field(default_factory=Lifeline)
    """Whether Spark is there."""

    @property
    def store(self) -> SegmentStore:
        """Reads and writes segments outside of epochs."""
        return self.workspaces.first.store

    def workspace(self) -> Workspace:
        """Return a new workspace, whose names no epoch uses."""
        return Workspace.beside(self.root, self.spark, self.functions)
