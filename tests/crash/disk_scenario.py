"""What meets the faulty disk: a database with all that it writes, and calls that are tried again.

Each call of a cycle is made until it succeeds; one that failed must have changed nothing, so the
next try is the first. What everything must hold follows from how many calls succeeded.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import laminar
from laminar.checkpoint.aside import SET_ASIDE
from laminar.testing.published import published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[Any, ...]

VIEWS = {
    "both": "SELECT k, n FROM pushed UNION ALL SELECT k, n FROM read",
    "sums": "SELECT k, SUM(n) AS n, COUNT(*) AS c FROM both GROUP BY k",
    "most": "SELECT k, MAX(n) AS n FROM pushed GROUP BY k",
    "joined": "SELECT p.k, p.n AS a, r.n AS b FROM pushed p JOIN read r ON p.k = r.k",
    "large": "SELECT k, n FROM sums WHERE n > 10",
}
"""A diamond, a join, an extreme that is searched anew, a view over a view."""

PUBLISHED = "sums"
TRIES = 3
"""One operation fails once: a second try must do, a third is for what tries again by itself."""


def _passing(i: int) -> str:
    return f"v{i} AS SELECT k, n + {i} AS n FROM sums"


class Meeting:
    """A database on a disk that may fail.

    Args:
        root: for state, files that are read, and what sinks write.
        spark: the session.
        shop: whether a sink writes to SQLite, which does so by itself.
    """

    def __init__(self, root: Path, spark: SparkSession, *, shop: bool = True) -> None:
        self.state, self.into, self.out = root / "state", root / "in", root / "out"
        self.shop = root / "shop" / "shop.db"
        self._spark, self._has_shop = spark, shop
        self.pushed: Counter[Row] = Counter()
        self.soon: Counter[Row] = Counter()
        """What is pushed once the call that runs has succeeded."""
        self.read: Counter[Row] = Counter()
        self.cycles = self.kept = 0
        self.failures: list[str] = []
        """Calls that failed, with the code."""
        for each in (self.into, self.shop.parent):
            each.mkdir()
        self.db = laminar.connect(self.state, spark=spark)
        self._define()

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where operations may fail."""
        return self.state, self.into, self.out

    def _define(self) -> None:
        self.db.execute(
            "SET laminar.compaction_fanout = 2; SET laminar.retained_epochs = 2;"
            "CREATE TABLE pushed (k STRING, n BIGINT);"
            f"CREATE SOURCE read (k STRING, n BIGINT) WITH (connector = 'files',"
            f" path = '{self.into}', format = 'json', backpressure = 'spill', buffer_rows = 1,"
            f" max_files_per_batch = 1, max_rows = 1)"
        )
        for name, query in VIEWS.items():
            self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        sink = f"CREATE SINK {{}} FROM {PUBLISHED} WITH (connector = '{{}}', path = '{{}}'{{}})"
        self.db.execute(sink.format("files", "files", self.out, ""))
        if self._has_shop:
            self.db.execute(sink.format("shop", "sqlite", self.shop, ", table = 't'"))

    def arrange(self, number: int | None = None) -> None:
        """Have files to be read."""
        i = self.cycles if number is None else number
        for at in range(3):
            row = (f"k{(i + at) % 3}", i + at)
            line = json.dumps({"k": row[0], "n": row[1]}) + "\n"
            (self.into / f"{i:06d}-{at}.json").write_text(line, encoding="utf-8")
            self.read[row] += 1

    def cycle(self) -> None:
        """Do everything once, each call until it succeeds."""
        i = self.cycles
        self.cycles += 1
        for call, changed in self._calls(i):
            self.soon = self.pushed.copy()
            self.soon.update(changed)
            self._until_done(call)
            self.pushed = self.soon

    def _calls(self, i: int) -> Iterator[tuple[Callable[[], object], Mapping[Row, int]]]:
        """Yield calls, each with what it does to the rows of `pushed`."""
        db = self.db
        rows = [(f"k{i % 3}", i), (f"k{i % 2}", i + 1)]
        yield lambda: db.insert("pushed", rows), Counter(rows)
        yield db.drain, {}
        yield lambda: db.execute(f"CREATE MATERIALIZED VIEW {_passing(i)}"), {}
        yield lambda: db.delete("pushed", rows[:1]), {rows[0]: -1}
        yield lambda: db.execute(f"UPDATE pushed SET n = n + 0 WHERE k = 'k{i % 2}'"), {}
        yield db.drain, {}
        yield lambda: db.execute(f"DROP MATERIALIZED VIEW v{i}"), {}
        yield self._keep, {}
        yield db.engine.settle, {}
        yield lambda: db.execute(f"SET laminar.retained_epochs = {2 + i % 2}"), {}
        yield lambda: db.restore(self.kept), {}
        yield lambda: db.insert("pushed", [("late", i)]), {("late", i): 1}
        yield db.close, {}
        yield self.open, {}

    def _keep(self) -> None:
        self.kept = self.db.checkpoint()

    def open(self) -> None:
        """Open the database."""
        self.db = laminar.connect(self.state, spark=self._spark)

    def _until_done(self, call: Callable[[], object]) -> None:
        for left in reversed(range(TRIES)):
            try:
                call()
            except laminar.LaminarError as error:
                self.failures.append(f"{error.code}")
                if not left:
                    raise
            else:
                return

    def check(self, *, may_be_damaged: bool = False) -> None:
        """Compare everything with what the calls say."""
        self.db.drain()
        assert self._bag("SELECT k, n FROM pushed") == +self.pushed
        assert self._bag("SELECT k, n FROM read") == +self.read
        for name, query in VIEWS.items():
            assert self._bag(f"SELECT * FROM {name}") == self._bag(query), name
        expected = self._bag(f"SELECT * FROM {PUBLISHED}")
        assert published(self.out) == expected
        assert not self._has_shop or self._in_shop() == expected
        assert may_be_damaged or self.db.recovery.damaged == ()
        left = [path for path in self.state.rglob("*.tmp") if SET_ASIDE not in path.parts]
        assert not left, left

    def check_one_of(self, *pushed: Counter[Row]) -> None:
        """Compare everything; the rows that were pushed are one of these."""
        self.db.drain()
        found = self._bag("SELECT k, n FROM pushed")
        fitting = [each for each in pushed if +each == found]
        assert fitting, f"{found} is none of {pushed}"
        self.pushed = fitting[0]
        self.check()

    def _bag(self, query: str) -> Counter[Row]:
        return Counter(self.db.sql(query).rows())

    def _in_shop(self) -> Counter[Row]:
        shop = sqlite3.connect(self.shop)
        try:
            return Counter(shop.execute("SELECT k, n, c FROM t").fetchall())
        finally:
            shop.close()
