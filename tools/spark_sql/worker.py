"""Runs test files in one process and writes one line of JSON for each query.

A line `{"at": ...}` comes before every step that might hang, so that who watches knows where.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from laminar.delta.program import Program
from laminar.errors import LaminarError
from laminar.runtime.statements.query import bindings_at
from laminar.session import Database, connect
from laminar.store import SegmentStore
from spark_sql.rows import Answer, Change, Table, answers, epochs, nearly, sorted_inside, spelled
from spark_sql.scripts import is_query, only_looks, settings, statements, words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 30
"""Views in one database."""


@dataclass
class Asked:
    """A query of a file and what became of it."""

    number: int
    sql: str
    told: dict[str, Any] = field(default_factory=dict)
    detail: str = ""

    @property
    def name(self) -> str:
        """What the view is called."""
        return f"q{self.number}"

    @property
    def is_open(self) -> bool:
        """Whether the view is there and was right so far."""
        return not self.told

    def tell(self, status: str, **more: Any) -> None:
        """Note the outcome, unless there is a worse one already."""
        self.told = {"status": status, **more}


class Run:
    """Files, one after the other, on one Spark."""

    def __init__(self, spark: SparkSession, inputs: Path, out: TextIO, each: int) -> None:
        self.spark = spark
        self.inputs = inputs
        self.out = out
        self.parent = os.getppid()
        self.each = each
        self.kept = {row.tableName for row in spark.sql("SHOW TABLES").collect()}

    def say(self, **line: Any) -> None:
        """Write one line; nobody reads it any more if the process that watches is gone."""
        if os.getppid() != self.parent:
            sys.exit("nobody watches")
        print(json.dumps(line), file=self.out, flush=True)

    def file(self, path: Path, skip: frozenset[int]) -> None:
        """Run the statements of a file; what it defines is forgotten at its end."""
        name = str(path.relative_to(self.inputs))
        session = self.spark.newSession()
        set_all(session, settings(path, self.inputs))
        waiting: list[Asked] = []
        for number, statement in enumerate(statements(path, self.inputs)):
            if is_query(statement):
                if number not in skip and number % self.each == 0:
                    waiting.append(Asked(number, statement))
                continue
            if not only_looks(statement):
                self.batches(name, session, waiting)
                waiting = []
            self.say(at=[name, number])
            with contextlib.suppress(Exception):
                session.sql(statement)
        self.batches(name, session, waiting)
        self.clean(session)
        self.say(done=name)

    def clean(self, session: SparkSession) -> None:
        """Drop the tables and views that a file has made."""
        session.sql("USE spark_catalog.default")
        for row in session.sql("SHOW TABLES").collect():
            if row.tableName not in self.kept and not row.isTemporary:
                for kind in ("TABLE", "VIEW"):
                    with contextlib.suppress(Exception):
                        session.sql(f"DROP {kind} IF EXISTS `{row.tableName}`")

    def batches(self, name: str, session: SparkSession, waiting: list[Asked]) -> None:
        """Run queries that see the same tables, a number of them in one database."""
        for at in range(0, len(waiting), BATCH):
            some = waiting[at : at + BATCH]
            try:
                Batch(self, name, session, some).run()
            except Exception as error:
                for each in some:
                    if each.is_open:
                        each.tell("broken", why=f"{type(error).__name__}: {error}"[:500])
            for each in some:
                if each.is_open:
                    each.tell("equal")
                self.say(file=name, n=each.number, sql=each.sql, detail=each.detail, **each.told)


def set_all(session: SparkSession, values: Iterable[tuple[str, str]]) -> None:
    """Set what this Spark lets a session set."""
    for key, value in values:
        with contextlib.suppress(Exception):
            session.conf.set(key, value)


def like(session: SparkSession) -> SparkSession:
    """Return a session with the same settings, and nothing else."""
    made = session.newSession()
    set_all(made, ((row.key, row.value) for row in session.sql("SET").collect()))
    return made


class Batch:
    """Queries over the same tables: views of one database, and what Spark answers."""

    def __init__(self, run: Run, name: str, session: SparkSession, asked: list[Asked]) -> None:
        self.of = run
        self.name = name
        self.asked = asked
        used = words([each.sql for each in asked])
        self.tables = list(self._tables(session, used))
        self.session = session
        self.truth = like(session)
        self.failed = ""
        self._present: dict[str, list[int]] = {}

    def _tables(self, session: SparkSession, used: frozenset[str]) -> Iterator[Table]:
        """Take what the queries name; a temporary view hides a table of its name."""
        names = {row.tableName.lower() for row in session.sql("SHOW TABLES").collect()}
        for name in sorted(names & used):
            with contextlib.suppress(Exception):
                yield Table.of(session, name)

    def run(self) -> None:
        """Three epochs; the views are made after the first."""
        steps = {each.name: list(epochs(each.rows.num_rows)) for each in self.tables}
        try:
            opened = connect(spark=like(self.session))
        except LaminarError as error:  # what the file sets
            self._refuse_all(error)
            return
        with opened as db:
            made = [each for each in self.tables if self._create(db, each)]
            for number in range(3 if made else 1):
                for table in made:
                    self._change(db, table, steps[table.name][number])
                self.of.say(at=[self.name, "step"], asked=[e.number for e in self.asked])
                self._step(db)
                if number == 0:
                    self._define(db)
                self._compare(db, made)

    def _refuse_all(self, error: LaminarError) -> None:
        for table in self.tables:
            self._bind(table, list(range(table.rows.num_rows)))
        for each in self.asked:
            if self._expected(each) is not None:
                self._refused(each, error)

    def _change(self, db: Database, table: Table, step: Change) -> None:
        self._present[table.name] = step.present
        self._bind(table, step.present)
        if step.deleted:
            db.delete(table.name, table.take(step.deleted))
        if step.inserted:
            db.insert(table.name, table.take(step.inserted))

    def _create(self, db: Database, table: Table) -> bool:
        try:
            db.execute(f"CREATE TABLE `{table.name}` ({table.ddl()})")
        except Exception as error:
            self.of.say(table=table.name, file=self.name, ddl=table.ddl(), why=_short(error))
            self._bind(table, list(range(table.rows.num_rows)))
            return False
        return True

    def _bind(self, table: Table, places: list[int], parts: int = 0) -> None:
        frame = self.truth.createDataFrame(table.take(places), table.schema)
        if parts:
            frame = frame.repartition(parts)
        frame.createOrReplaceTempView(f"`{table.name}`")

    def _step(self, db: Database) -> None:
        try:
            db.step()
        except LaminarError as error:  # of one view; the others went on
            self.failed = str(error)
        except Exception as error:
            self.failed = f"{type(error).__name__}: {error}"

    def _define(self, db: Database) -> None:
        for each in self.asked:
            expected = self._expected(each)
            if expected is None:
                continue
            self.of.say(at=[self.name, each.number])
            try:
                db.execute(f"CREATE MATERIALIZED VIEW {each.name} AS {each.sql}")
            except Exception as error:
                self._refused(each, error)
                continue
            catalog = db.engine.defined.catalog
            shape = catalog.shape(each.name)
            each.detail = _strategy(catalog.programs[each.name])
            if list(zip(shape.columns, shape.types, strict=True)) != expected:
                got = list(zip(shape.columns, shape.types, strict=True))
                each.tell("differs", why=f"columns {got} and not {expected}")

    def _expected(self, each: Asked) -> list[tuple[str, str]] | None:
        """Return names and types of the columns; None if Spark makes no view of the query."""
        try:
            self.truth.sql(f"CREATE OR REPLACE TEMPORARY VIEW __{each.name} AS {each.sql}")
            return self.truth.table(f"__{each.name}").dtypes
        except Exception as error:
            each.tell("spark", why=_short(error))
            return None

    def _refused(self, each: Asked, error: Exception) -> None:
        """A refusal, if Spark can answer; else the two agree."""
        told = answers({each.name: self.truth.sql(each.sql)})[each.name]
        if isinstance(told, Exception):
            each.tell("spark", why=f"fails: {_short(told)}")
        elif isinstance(error, LaminarError):
            detail = f" [{error.detail}]" if error.detail else ""
            each.tell("refused", code=error.code, why=f"{_short(error)}{detail}"[:600])
        else:
            each.tell("bare", why=f"{type(error).__name__}: {_short(error)}")

    def _compare(self, db: Database, made: list[Table]) -> None:
        due = [each for each in self.asked if each.is_open]
        if not due:
            return
        truths = answers({each.name: self.truth.sql(each.sql) for each in due})
        reading = like(self.session)
        _, bindings = bindings_at(db.engine, reading, SegmentStore(db.path, reading))
        frames = {each.name: bindings.content(each.name) for each in due}
        stored = answers(frames)
        for each in due:
            self._judge(db, each, truths[each.name], stored[each.name], made)

    def _judge(
        self, db: Database, each: Asked, truth: object, stored: object, made: list[Table]
    ) -> None:
        if truth == stored:
            return
        if isinstance(truth, Exception):
            each.tell("fails", why=_short(truth))
        elif isinstance(stored, Exception):
            each.tell("bare", why=f"reading: {_short(stored)}")
        else:
            assert isinstance(truth, Counter)
            assert isinstance(stored, Counter)
            why = f"epoch {db.engine.ledger.manifest.epoch}: missing {_some(truth - stored)}"
            why += f"; not expected {_some(stored - truth)}; {self.failed}"
            if nearly(truth, stored):
                each.tell("rounding", why=why)
            elif self._is_spelling(each, truth, stored):
                each.tell("ties", why=f"spelling: {why}")
            elif sorted_inside(truth, stored) or self._is_open(each, truth, made):
                each.tell("ties", why=why)
            else:
                each.tell("differs", why=why[:1500])

    def _is_spelling(self, each: Asked, truth: Answer, stored: Answer) -> bool:
        """Whether a group shows another of the spellings that a collation takes for one."""
        said = " ".join([each.sql, *(table.ddl() for table in self.tables)])
        return "collat" in said.lower() and spelled(truth) == spelled(stored)

    def _is_open(self, each: Asked, truth: object, made: list[Table]) -> bool:
        """Whether Spark itself answers otherwise when rows come in another order."""
        present = {table.name: self._present[table.name] for table in made}
        try:
            for turn, parts in ((None, 0), (None, 3), (0, 1), (1, 1), (2, 1)):
                for table in made:
                    self._bind(table, _turned(present[table.name], turn), parts)
                again = answers({each.name: self.truth.sql(each.sql)})[each.name]
                if again != truth:
                    return True
            return False
        finally:
            for table in made:
                self._bind(table, present[table.name])


def _turned(rows: list[int], by: int | None) -> list[int]:
    """Return rows in another order: begun further down, or backwards."""
    return rows[::-1] if by is None else [*rows[by:], *rows[:by]]


def _strategy(program: Program) -> str:
    why = [str(getattr(each, "reason", "")) for each in program.relations]
    detail = [str(getattr(each, "detail", "")) for each in program.relations]
    shown = f" {why[-1]}: {detail[-1]}" if program.strategy.value == "full" else ""
    return f"{program.strategy.value}{shown}"[:300]


def _short(error: object) -> str:
    return re.sub(r"\s+", " ", str(error))[:400]


def _some(rows: Counter[str]) -> str:
    return f"{rows.total()} rows {list(rows)[:4]}"[:400]


def main(inputs: str, out: str, each: str, *files: str) -> None:
    """Run files, each given as its path and the numbers of queries to skip, after colons."""
    from spark_sql.start import started

    root = Path(inputs)
    spark = started(root)
    with Path(out).open("a") as lines:
        run = Run(spark, root, lines, int(each))
        for given in files:
            path, *skip = given.split(":")
            run.file(root / path, frozenset(map(int, skip)))


if __name__ == "__main__":
    main(*sys.argv[1:])
