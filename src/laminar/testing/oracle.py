"""Compare every view with its query, run in full over the live rows of the tables.

The truth never reads what Laminar maintains. Tables are a plain Python bag of rows; a view that
another view reads is its own recomputed rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from laminar.delta.program import Strategy
from laminar.model.trace_name import view_of
from laminar.runtime.catalog.definitions import ViewDefinition
from laminar.runtime.statements.query import bindings_at
from laminar.sql import rewrite_windows
from laminar.sql.asof import spell_out
from laminar.store import SegmentStore
from laminar.testing.bags import Row, assert_same_bag
from laminar.testing.live import LiveRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from laminar.session import Database

# Tiny queries, each run once: compiling them and shuffling wide costs more than they do.
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark knows of rows that are not in files how many there are, and that one row is a group as
    # it is; then it forgets to make 0.0 of a key that is -0.0.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("ConvertToLocalRelation", "OptimizeOneRowPlan")
    ),
}


_NO_SETTINGS: Mapping[str, str] = {}

_TOGETHER = 8
"""How many queries run as one job: a job has its price, and so has a wide union."""


def _quick_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    session = spark.newSession()
    for name, value in {**_SETTINGS, **settings}.items():
        session.conf.set(name, value)
    return session


class Oracle:
    """Feeds a database and a plain model the same changes, and compares the two.

    Args:
        db: tables and views are defined on it as usual; only rows go through the oracle.
        spark: runs the recomputation in a session of its own.
        may_be_full: views for which the strategy `full` is no failure.
        settings: those of Spark that the database must have; the truth is computed under them.
        truths: view -> the query to compare it with, where its own has several right answers.
    """

    def __init__(
        self,
        db: Database,
        spark: SparkSession,
        may_be_full: frozenset[str] = frozenset(),
        settings: Mapping[str, str] = _NO_SETTINGS,
        truths: Mapping[str, str] | None = None,
    ) -> None:
        self.db = db
        self.truths = dict(truths or {})
        self.may_be_full = may_be_full
        self.tables: dict[str, LiveRows] = {}
        self._session = _quick_session(spark, settings)
        self._reading = _quick_session(spark, settings)
        self._store = SegmentStore(db.path, self._reading)
        self._compared: dict[str, object] = {}
        self.compared = 0
        """How often a view was compared with its recomputation."""

    def table(self, name: str, ddl: str) -> LiveRows:
        """Create a table in the database and in the model."""
        self.db.execute(f"CREATE TABLE {name} ({ddl})")
        return self.tables.setdefault(name, LiveRows())

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows to both."""
        if rows:
            self.db.insert(table, list(rows))
            self.tables[table].insert(rows)

    def delete(self, table: str, rows: Sequence[Row]) -> None:
        """Take rows from both."""
        if rows:
            self.db.delete(table, list(rows))
            self.tables[table].delete(rows)

    def step(self) -> None:
        """Run one epoch and compare."""
        self.db.step()
        self.check()

    def check(self) -> None:
        """Fail with everything that is wrong, by name of table or view."""
        wrong = [f"{name}: {problem}" for name, problem in self.problems()]
        if wrong:
            raise AssertionError("\n".join(wrong))

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what differs from the truth now."""
        changed = [name for name in self.tables if self._moved(name)]
        for name in changed:
            self._bind(name, self.tables[name].rows)
        for name, stored in (self._stored(changed) if changed else {}).items():
            yield from _differences(name, stored, self.tables[name].rows)
        for level in self._levels():
            yield from self._fallbacks(level)
            due = [name for name in level if self._moved(name)]
            for at in range(0, len(due), _TOGETHER):
                yield from self._compare(due[at : at + _TOGETHER])

    def _moved(self, name: str) -> bool:
        """Whether rows under a relation, or its own files, are others than when last compared.

        So is one that is read now: its truth has to be there for its readers.
        """
        catalog = self.db.engine.defined.catalog
        below = {name, *catalog.registry.all_dependencies(name)}
        traces = self.db.engine.ledger.manifest.traces
        files = [(own, traces[own].segments) for own in sorted(traces) if view_of(own) in below]
        rows = [(each, live.version) for each, live in self.tables.items() if each in below]
        is_read = bool(catalog.registry.all_dependents(name)) if name in catalog.programs else True
        seen, self._compared[name] = self._compared.get(name), (files, rows, is_read)
        return seen != self._compared[name]

    def _levels(self) -> list[list[str]]:
        """Views by the length of their longest path to a table: a level reads those before."""
        programs = self.db.engine.defined.catalog.programs
        depth: dict[str, int] = {}
        for name in self.db.engine.defined.catalog.registry.topo_order():
            depth[name] = 1 + max(
                (depth.get(each, 0) for each in programs[name].sources()), default=0
            )
        return [
            [name for name in depth if depth[name] == level]
            for level in sorted(set(depth.values()))
        ]

    def _fallbacks(self, names: list[str]) -> Iterator[tuple[str, str]]:
        for name in names:
            strategy = self.db.engine.defined.catalog.programs[name].strategy
            if strategy is Strategy.FULL and name not in self.may_be_full:
                yield name, "fell back to full"

    def _compare(self, names: list[str]) -> Iterator[tuple[str, str]]:
        queries = {name: self._query(name) for name in names}
        truths = self._collect({name: self._session.sql(text) for name, text in queries.items()})
        stored = self._stored(names)
        for name, truth in truths.items():
            self.compared += 1
            if self.db.engine.defined.catalog.registry.all_dependents(name):
                self._bind(name, truth)
            yield from _differences(name, stored[name], truth)

    def _query(self, view: str) -> str:
        definition = self.db.engine.defined.catalog.definitions[view]
        assert isinstance(definition, ViewDefinition)
        return rewrite_windows(spell_out(self.truths.get(view, definition.query)))

    def _bind(self, name: str, rows: list[Row]) -> None:
        frame = _frame(self._session, rows, self.db.engine.defined.catalog.shape(name).ddl)
        frame.createOrReplaceTempView(f"`{name}`")

    def _stored(self, names: list[str]) -> dict[str, list[Row]]:
        """Read relations of the database as its own queries do, in a session for tiny reads."""
        _, bindings = bindings_at(self.db.engine, self._reading, self._store)
        return self._collect({name: bindings.content(name) for name in names})

    def _collect(self, frames: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
        """Run several queries as one: each has a column of its own in a union of all."""
        parts = []
        for place, frame in enumerate(frames.values()):
            parts.append(frame.selectExpr(f"{place} AS of", f"STRUCT(*) AS r{place}"))
        united = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        found: dict[str, list[Row]] = {name: [] for name in frames}
        names = list(frames)
        for row in united.collect():
            found[names[row["of"]]].append(tuple(row[f"r{row['of']}"]))
        return found


def _frame(session: SparkSession, rows: list[Row], ddl: str) -> DataFrame:
    """Return rows as Spark takes them, without a Python process that every query asks for them.

    Converted by PySpark, not by what turns the user's rows into Arrow: that may be wrong, too.
    """
    from pyspark.sql.conversion import LocalDataToArrowConversion
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    nothing = (None,) * len(schema)  # none at all would be refused
    table: pa.Table = LocalDataToArrowConversion.convert(rows or [nothing], schema, False)
    frame: DataFrame = session.createDataFrame(table.slice(0, len(rows)), schema)
    return frame


def _differences(name: str, stored: list[Row], truth: list[Row]) -> Iterator[tuple[str, str]]:
    try:
        assert_same_bag(stored, truth)
    except AssertionError as error:
        yield name, str(error)
