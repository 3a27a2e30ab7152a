"""Queries that are run as the user wrote them, in a session where tables have the user's names."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from laminar.delta.program import Recomputed
from laminar.model.quoting import backquoted
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.spark.workspace import Workspace
from laminar.store.char_notes import as_chars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FullQueries:
    """One workspace for all of them; names are bound and analysed one query at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.session = workspace.session
        self._lock = threading.Lock()

    def run(self, relation: Recomputed, sql: str, bindings: Bindings) -> DataFrame:
        """Run a view's own query over what an epoch sees."""
        twin = Bindings(
            self.session,
            self._workspace.store,
            bindings.relations,
            bindings.versions,
            bindings.first,
        )
        with self._lock:
            for name in relation.reads:
                chars = bindings.relations.by_name[name].shape.chars
                as_chars(twin.content(name), chars).createOrReplaceTempView(backquoted(name))
            return twin.run(sql, (relation.shape.name,))
