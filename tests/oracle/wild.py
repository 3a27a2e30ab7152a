"""Random views over tables of any types and over each other, under changes, reopening, and more.

The truth is Spark's answer to each view's query over the rows that the script of literals says are
there. A case is plain JSON, so that a failure can be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import laminar
from laminar.errors import LaminarError
from laminar.model.quoting import backquoted

from .wild_cases import WildCase
from .wild_frames import TOGETHER, declared, session_in, shown_together
from .wild_truth import Truth, assert_answered, told, views_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Tally:
    """What became of the views; `compared` is by family of types and shape of query."""

    compared: Counter[str] = field(default_factory=Counter)
    failed_alike: int = 0
    refused: Counter[str] = field(default_factory=Counter)


Elsewhere = Callable[[Path, WildCase, "Standing", list[Any]], "Standing"]
"""Lets another Spark change what is in a folder; returns what is there then."""


@dataclass
class Standing:
    """What is there between two steps."""

    rows: dict[str, list[list[str]]]
    defined: list[str]
    paused: list[str]


class WildRun:
    """Runs a case, and compares after every epoch."""

    def __init__(
        self, case: WildCase, spark: SparkSession, path: Path, elsewhere: Elsewhere | None = None
    ) -> None:
        self._case = case
        self._path = path
        self._other = elsewhere
        self._spark = session_in(spark, case.zone, ansi=case.ansi)
        self._truth = Truth(case, session_in(spark, case.zone, ansi=case.ansi))
        self._rows: dict[str, list[list[str]]] = {name: [] for name in case.tables}
        self._defined: list[str] = []
        self._paused: list[str] = []
        self.tally = Tally()

    def run(self) -> Tally:
        """Run all; raise an AssertionError that names the view that is wrong."""
        self._db = self._open()
        try:
            for name, columns in self._case.tables.items():
                self._db.execute(f"CREATE TABLE {backquoted(name)} ({declared(columns)})")
            half = len(self._case.views) // 2
            names = list(self._case.views)
            self._define(names[:half])
            for place, (what, *given) in enumerate(self._case.steps):
                getattr(self, f"_{what}")(*given)
                if place == 0:
                    self._define(names[half:])
                self._compare(f"step {place} ({what})")
        finally:
            self._db.close()
        return self.tally

    def go_on(self, standing: Standing, change: list[Any], when: str) -> Standing:
        """Open what another Spark has left, change it, and leave it again."""
        self._rows, self._defined = standing.rows, standing.defined
        self._paused = standing.paused
        self._db = self._open()
        try:
            self._compare(f"{when}, opened")
            self._change(*change)
            self._compare(f"{when}, changed")
        finally:
            self._db.close()
        return Standing(self._rows, self._defined, self._paused)

    def _elsewhere(self, *change: Any) -> None:
        """Let another Spark have its turn."""
        assert self._other is not None
        self._db.close()
        standing = Standing(self._rows, self._defined, self._paused)
        found = self._other(self._path, self._case, standing, list(change))
        self._rows, self._defined, self._paused = found.rows, found.defined, found.paused
        self._db = self._open()

    def _open(self) -> laminar.Database:
        db = laminar.connect(self._path, spark=self._spark)
        db.execute("SET laminar.max_failures = 1000; SET laminar.retry_backoff_ms = 0")
        return db

    def _define(self, names: list[str]) -> None:
        for name in names:
            query = self._case.views[name]
            if not self._case.views.keys() & set(views_read(query)) <= set(self._defined):
                continue
            try:
                self._db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                self._defined.append(name)
            except LaminarError as error:
                if self._truth.answer(name, self._rows) is not None:
                    self.tally.refused[error.code] += 1

    def _change(
        self,
        added: dict[str, list[list[str]]],
        gone: dict[str, list[int]],
        is_one_epoch: bool = False,
    ) -> None:
        for name, numbers in gone.items():
            self._delete(name, numbers)
        if not is_one_epoch:
            self._step()
        for name, rows in added.items():
            if rows:
                listed = ", ".join(f"({', '.join(row)})" for row in rows)
                self._db.execute(f"INSERT INTO {backquoted(name)} VALUES {listed}")
                self._rows[name] += rows
        self._step()
        for name in list(self._paused):
            self._resume(name)

    def _delete(self, table: str, numbers: list[int]) -> None:
        """Delete some rows as the database itself shows them."""
        rows = self._rows[table]
        shown = self._db.sql(f"SELECT * FROM {backquoted(table)}").rows()
        assert len(shown) == len(rows), f"{table}: {len(shown)} rows are shown of {len(rows)}"
        taken = {number % len(rows) for number in numbers} if rows else set()
        if not taken:
            return
        there = self._truth.told(table, rows)
        for row in (shown[at] for at in taken):
            sought = told(self._case.tables[table], row)
            assert sought in there, f"{table}: {row} is not a row that was inserted"
            del rows[there.index(sought)], there[there.index(sought)]
        self._db.delete(table, [shown[at] for at in taken])

    def _step(self) -> None:
        try:
            self._db.step()
        except LaminarError as error:
            self.failure = str(error)  # of one view; whether it may fail is looked at below

    def _reopen(self) -> None:
        self._db.close()
        self._db = self._open()

    def _pause(self) -> None:
        for name in {*self._defined[:1]} - {*self._paused}:
            self._db.execute(f"PAUSE MATERIALIZED VIEW {name}")
            self._paused.append(name)
            self._step()
            self._resume(name)
        self._step()

    def _resume(self, name: str) -> None:
        """Let a view go on; it stays paused if its query fails."""
        try:
            self._db.execute(f"RESUME MATERIALIZED VIEW {name}")
        except LaminarError:
            if self._truth.answer(name, self._rows) is None:
                return
        self._paused.remove(name)

    def _restore(self) -> None:
        self._db.restore(self._db.checkpoint())
        self._step()

    def _compact(self) -> None:
        self._db.engine.settle()

    def _replace(self) -> None:
        """Let a view be what another one is, and then itself again."""
        if not self._defined:
            return
        first, last = self._defined[0], self._defined[-1]
        for name in (first, last):
            query = self._case.views[name]
            try:
                self._db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW {last} AS {query}")
            except LaminarError:
                if self._truth.answer(name, self._rows) is not None:
                    raise

    def _compare(self, when: str) -> None:
        names = [*self._case.tables, *self._defined]
        self._truth.learn(names, self._rows)
        due = []
        for name in names:
            if self._waits(name) or self._truth.answer(name, self._rows) is None:
                self.tally.failed_alike += 1  # overflow, a cast that fails: no answer now
            else:
                due.append(name)
        for at in range(0, len(due), TOGETHER):
            self._judge(due[at : at + TOGETHER], when)

    def _judge(self, names: list[str], when: str) -> None:
        frames = {n: self._db.sql(f"SELECT * FROM {backquoted(n)}").spark() for n in names}
        for name, found in shown_together(frames).items():
            query = self._case.views.get(name, "")
            truth = self._truth.answer(name, self._rows)
            assert truth is not None
            try:
                assert_answered(found, truth, query, self._case.family)
            except AssertionError as error:
                groups = self._groups()
                if self._is_held(name, groups):
                    self.tally.failed_alike += 1
                    continue
                why = groups.get(name)
                raise AssertionError(f"{when}, {name}: {query}\n{error}\n{why}") from error
            shape = name.partition("_")[2] if query else "table"
            self.tally.compared[f"{self._case.family} {shape}"] += 1

    def _groups(self) -> dict[str, tuple[int, int, str]]:
        """Return view -> the group it steps with, how many epochs it is behind, its state."""
        asked = "SELECT name, group_id, staleness, state FROM laminar_system.materialized_views"
        rows = self._db.sql(asked).rows()
        return {name: (group, behind, state) for name, group, behind, state in rows}

    def _is_held(self, name: str, groups: dict[str, tuple[int, int, str]]) -> bool:
        """Say whether a view is behind because one that it steps with, or reads, fails."""
        if name not in groups:
            return False
        group, behind, _ = groups[name]
        members = (each for each in self._defined if groups[each][0] == group)
        fails = any(self._truth.answer(each, self._rows) is None for each in members)
        above = views_read(self._case.views[name])
        return behind > 0 and (fails or any(self._is_held(each, groups) for each in above))

    def _waits(self, name: str) -> bool:
        """Say whether a view is paused, or reads one that is."""
        above = views_read(self._case.views.get(name, ""))
        return name in self._paused or any(self._waits(each) for each in above)
