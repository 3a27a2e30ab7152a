"""Names that a session of queries has bound, so that those of long ago can be let go.

A query binds what it names, at its own epoch, and `table_changes(v, 1)` or `v AS OF EPOCH 3` under
a name that only that query has. Law: a session has at most `MOST` names besides those of the query
that bound last. They are not taken away at once, for a frame of Spark Connect looks its names up
when it runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from laminar.model.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 64


class BoundNames:
    """The temporary views of one session; whoever binds has the session to itself.

    Args:
        session: where names are bound.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._names: OrderedDict[str, None] = OrderedDict()
        self._fresh: set[str] = set()

    def bind(self, name: str, frame: DataFrame) -> None:
        """Let a name stand for a frame."""
        frame.createOrReplaceTempView(backquoted(name))
        self.note([name.lower()])

    def note(self, names: Iterable[str]) -> None:
        """Take names that somebody else has bound in the session for this query."""
        for name in names:
            self._fresh.add(name)
            self._names[name] = None
            self._names.move_to_end(name)

    def settle(self) -> None:
        """Let go of the oldest names; those that were bound since the last time stay."""
        most, self._fresh = MOST + len(self._fresh), set()
        while len(self._names) > most:
            name, _ = self._names.popitem(last=False)
            self._session.catalog.dropTempView(name)
