"""Random tables, views over views, and changes, all plain JSON: a failure can be kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from laminar.session import connect
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Columns = list[tuple[str, str]]  # (name, type)

INT, LONG, TEXT, DOUBLE, MONEY = "INT", "BIGINT", "STRING", "DOUBLE", "DECIMAL(8,2)"
INSTANT, CLOCK = "TIMESTAMP", "TIMESTAMP_NTZ"
NUMBERS = (INT, LONG, DOUBLE, MONEY)
TIMES = (INSTANT, CLOCK)

ZONES = (
    "UTC", "America/New_York", "Europe/Amsterdam", "Asia/Kolkata", "Australia/Lord_Howe",
    "Pacific/Apia",
)  # fmt: skip
TURNS = {
    # An hour that comes twice in New York, and one that is skipped there; in UTC, and on the clock.
    INSTANT: ("2026-11-01T05:30", "2026-11-01T06:30", "2026-03-08T07:00", "1936-06-01T00:00"),
    CLOCK: ("2026-11-01T01:30", "2026-03-08T02:30", "2026-03-08T03:30", "1936-06-01T00:00"),
}


@dataclass
class Scenario:
    """What is defined, and what happens to it."""

    tables: dict[str, Columns] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    epochs: list[list[list[Any]]] = field(
        default_factory=list
    )  # ["insert" | "delete", table, rows]
    zone: str = "UTC"

    def run(self, spark: SparkSession) -> None:
        """Compare every view with its recomputation after every epoch."""
        late = len(self.views) // 2
        settings = {"spark.sql.session.timeZone": self.zone}
        caller = spark.newSession()
        caller.conf.set(*next(iter(settings.items())))
        with connect(spark=caller) as db:
            oracle = Oracle(db, spark, settings=settings)
            for name, columns in self.tables.items():
                oracle.table(name, ", ".join(f"{column} {kind}" for column, kind in columns))
            views = list(self.views.items())
            for name, sql in views[:late]:
                db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            for place, changes in enumerate(self.epochs):
                for change in changes:
                    self._apply(oracle, *change)
                db.step()
                if place == 0:
                    for name, sql in views[late:]:
                        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
                oracle.check()

    def _apply(self, oracle: Oracle, what: str, table: str, given: list[Any]) -> None:
        if what == "insert":
            kinds = [kind for _, kind in self.tables[table]]
            oracle.insert(
                table,
                [
                    tuple(_value(value, kind) for value, kind in zip(row, kinds, strict=True))
                    for row in given
                ],
            )
            return
        live = oracle.tables[table].rows
        places = sorted({number % len(live) for number in given}) if live else []
        oracle.delete(table, [live[place] for place in places])


def _value(value: Any, kind: str) -> Any:
    if kind in TIMES and value is not None:
        return datetime.fromisoformat(value)
    return Decimal(value) if kind == MONEY and value is not None else value


def random_scenario(chance: random.Random, *, views: int = 6, epochs: int = 4) -> Scenario:
    """Make one up: two tables, views up to depth four, inserts, deletes and updates."""
    made = Scenario(zone=chance.choice(ZONES))
    known: dict[str, Columns] = {}
    depth: dict[str, int] = {}
    for name in ("t0", "t1"):
        kinds = [
            INT,
            *(
                chance.choice((INT, TEXT, DOUBLE, MONEY, INSTANT, CLOCK))
                for _ in range(chance.randint(1, 3))
            ),
        ]
        known[name] = made.tables[name] = [(f"a{at}", kind) for at, kind in enumerate(kinds)]
        depth[name] = 0
    for at in range(views):
        name = f"v{at}"
        maker = chance.choice(MAKERS)
        # The newest relation is likely to be read: that is how chains and diamonds come about.
        readable = [each for each in known if depth[each] < 4]
        left = chance.choice([*readable, *readable[-2:]])
        right = chance.choice(readable)
        made.views[name], known[name] = maker(chance, (left, known[left]), (right, known[right]))
        depth[name] = 1 + max(depth[left], depth[right])
    for at in range(epochs):
        made.epochs.append(_changes(chance, made.tables, first=at == 0))
    return made


def _changes(chance: random.Random, tables: dict[str, Columns], *, first: bool) -> list[list[Any]]:
    found: list[list[Any]] = []
    for name, columns in tables.items():
        if not first and chance.random() < 0.3:
            continue
        if not first and chance.random() < 0.7:
            count = 50 if chance.random() < 0.15 else chance.randint(1, 4)
            found.append(["delete", name, [chance.randint(0, 99) for _ in range(count)]])
        if first or chance.random() < 0.8:
            rows = [
                [_cell(chance, kind) for _, kind in columns] for _ in range(chance.randint(1, 5))
            ]
            found.append(["insert", name, [*rows, *rows[:1]]])
    return found or [["insert", "t0", [[None] * len(tables["t0"])]]]


def _cell(chance: random.Random, kind: str) -> Any:
    if chance.random() < 0.2:
        return None
    if kind == TEXT:
        return chance.choice("ab")
    if kind == DOUBLE:
        return chance.randint(-6, 6) / 4  # sums of quarters are exact in any order
    if kind in TIMES:
        return chance.choice(TURNS[kind])
    if kind == MONEY:
        return str(Decimal(chance.randint(-300, 300)) / 100)
    return chance.randint(0, 3)


Source = tuple[str, Columns]
Made = tuple[str, Columns]


def _of(columns: Columns, *kinds: str) -> list[str]:
    return [name for name, kind in columns if kind in kinds]


def _named(columns: list[tuple[str, str]]) -> tuple[str, Columns]:
    """Name expressions a0, a1, ... and return the select list with the columns it makes."""
    listed = ", ".join(f"{expression} AS a{at}" for at, (expression, _) in enumerate(columns))
    return listed, [(f"a{at}", kind) for at, (_, kind) in enumerate(columns)]


def _whole(columns: Columns) -> str:
    """Return a column of whole numbers; there is always one."""
    return _of(columns, INT, LONG)[0]


def _typed(chance: random.Random, whole: str, other: str) -> str:
    """Return a whole number, or the same in another type; as text, in one of two spellings."""
    return chance.choice(
        [
            *(whole,) * 4,
            f"CAST({whole} AS DOUBLE)",
            f"CAST({whole} AS DECIMAL(20, 2))",
            f"CONCAT(IF({other} IS NULL, ' ', ''), CAST({whole} AS STRING))",
        ]
    )


def _filter(chance: random.Random, left: Source, _: Source) -> Made:
    name, columns = left
    key = _whole(columns)
    kept = [(each, kind) for each, kind in columns if each == key or chance.random() < 0.7]
    listed, made = _named([*kept, (f"CASE WHEN {key} > 1 THEN 'p' ELSE 'q' END", TEXT)])
    test = chance.choice([f"{key} > 0", f"{key} IS NULL OR {key} < 3", "TRUE", f"{key} % 2 = 0"])
    for time in _of(columns, *TIMES)[:1]:
        hour = f"CAST(CAST({time} AS STRING) AS TIMESTAMP)"
        listed += f", HOUR({time}) AS a{len(made)}, {hour} AS a{len(made) + 1}"
        made += [(f"a{len(made)}", INT), (f"a{len(made) + 1}", INSTANT)]
    return f"SELECT {listed} FROM {name} WHERE {test}", made


def _group(chance: random.Random, left: Source, _: Source) -> Made:
    name, columns = left
    keys = chance.sample(columns, min(len(columns), chance.randint(0, 2)))
    calls: list[tuple[str, str]] = [("COUNT(*)", LONG)]
    for each, kind in columns:
        if kind in (INT, LONG):
            calls.append(chance.choice([(f"MAX({each})", kind), (f"COUNT({each})", LONG)]))
        elif kind == DOUBLE:
            calls.append((chance.choice([f"SUM({each})", f"MIN({each})"]), DOUBLE))
        elif kind == TEXT:
            calls.append(chance.choice([(f"MIN({each})", TEXT), (f"COUNT(DISTINCT {each})", LONG)]))
    if chance.random() < 0.5:
        calls.append((f"SUM({_whole(columns)}) FILTER (WHERE {_whole(columns)} > 0)", LONG))
    listed, made = _named([*keys, *calls[:4]])
    group = ""
    if keys:
        plain = ", ".join(each for each, _ in keys)
        group = f" GROUP BY ROLLUP ({plain})" if chance.random() < 0.2 else f" GROUP BY {plain}"
        group += chance.choice(["", "", " HAVING COUNT(*) > 1"])
    return f"SELECT {listed} FROM {name}{group}", made


def _distinct(chance: random.Random, left: Source, _: Source) -> Made:
    name, columns = left
    key = _whole(columns)
    kept = [(each, kind) for each, kind in columns if each == key or chance.random() < 0.5]
    listed, made = _named(kept)
    return f"SELECT DISTINCT {listed} FROM {name}", made


def _join(chance: random.Random, left: Source, right: Source) -> Made:
    (a, ours), (b, theirs) = left, right
    kind = chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
    equal = chance.choice(["=", "=", "=", "<=>", "<", "<>"])
    ours_typed = _typed(chance, f"l.{_whole(ours)}", f"l.{ours[-1][0]}")
    on = f"{ours_typed} {equal} {_typed(chance, f'r.{_whole(theirs)}', f'r.{theirs[-1][0]}')}"
    if chance.random() < 0.25:
        on += f" AND l.{_whole(ours)} > r.{_of(theirs, INT, LONG)[-1]}"
    columns = [(f"l.{each}", kind_) for each, kind_ in ours[:3]]
    if kind not in ("SEMI JOIN", "ANTI JOIN"):
        columns += [(f"r.{each}", kind_) for each, kind_ in theirs[:2]]
    if not any(kind_ in (INT, LONG) for _, kind_ in columns):
        columns.append((f"l.{_whole(ours)}", LONG))
    listed, made = _named(columns)
    return f"SELECT {listed} FROM {a} l {kind} {b} r ON {on}", made


def _set(chance: random.Random, left: Source, right: Source) -> Made:
    (a, ours), (b, theirs) = left, right
    word = chance.choice(
        ["UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]
    )
    first = f"SELECT CAST({_whole(ours)} AS BIGINT) AS a0, 'c' AS a1 FROM {a}"
    kind = chance.choice([LONG, LONG, DOUBLE])
    second = f"SELECT CAST({_whole(theirs)} AS {kind}), 'c' FROM {b}"
    listed = "CAST(a0 AS BIGINT) AS a0, a1" if kind == DOUBLE else "*"
    return f"SELECT {listed} FROM ({first} {word} {second})", [("a0", LONG), ("a1", TEXT)]


def _exists(chance: random.Random, left: Source, right: Source) -> Made:
    (a, ours), (b, theirs) = left, right
    listed, made = _named([(f"l.{each}", kind) for each, kind in ours])
    mine, other = f"l.{_whole(ours)}", f"r.{_whole(theirs)}"
    typed = _typed(chance, other, f"r.{theirs[-1][0]}")
    test = chance.choice(
        [
            f"EXISTS (SELECT 1 FROM {b} r WHERE {typed} = {mine})",
            f"NOT EXISTS (SELECT 1 FROM {b} r WHERE {typed} = {mine})",
            f"{mine} IN (SELECT {typed} FROM {b} r)",
            f"{mine} NOT IN (SELECT {typed} FROM {b} r WHERE {other} > 1)",
            f"CASE WHEN {mine} IN (SELECT {typed} FROM {b} r) THEN {mine} ELSE 2 END = 2",
            f"{mine} NOT IN (SELECT {other} FROM {b} r WHERE {other} > 1)",
            f"{mine} NOT IN (SELECT {other} FROM {b} r)",
            f"{mine} >= (SELECT AVG({other}) FROM {b} r)",
            f"(SELECT COUNT(*) FROM {b} r WHERE {other} = {mine}) > 1",
            f"EXISTS (SELECT 1 FROM {b} r WHERE {other} > {mine})",
            f"NOT EXISTS (SELECT 1 FROM {b} r WHERE {other} <=> {mine})",
            f"{mine} = 2 OR NOT EXISTS (SELECT 1 FROM {b} r WHERE {other} = {mine})",
            f"{mine} = 2 OR {mine} NOT IN (SELECT {other} FROM {b} r)",
            f"({mine}, 1) NOT IN (SELECT {other}, {other} FROM {b} r)",
            f"{mine} < (SELECT MAX({other}) FROM {b} r WHERE {other} <> {mine})",
        ]
    )
    return f"SELECT {listed} FROM {a} l WHERE {test}", made


def _mark(chance: random.Random, left: Source, right: Source) -> Made:
    (a, ours), (b, theirs) = left, right
    mine, other = f"l.{_whole(ours)}", f"r.{_whole(theirs)}"
    compare = chance.choice(["=", "<", "<=>"])
    test = chance.choice(
        [
            f"EXISTS (SELECT 1 FROM {b} r WHERE {other} {compare} {mine})",
            f"{mine} IN (SELECT {other} FROM {b} r)",
            f"{mine} NOT IN (SELECT {other} FROM {b} r WHERE {other} {compare} {mine})",
        ]
    )
    value = f"(SELECT COUNT(*) FROM {b} r WHERE {other} {compare} {mine})"
    columns = [(f"l.{each}", kind) for each, kind in ours[:2]]
    listed, made = _named([*columns, (f"IF({test}, 1, 0)", INT), (value, LONG)])
    return f"SELECT {listed} FROM {a} l", made


def _lateral(chance: random.Random, left: Source, right: Source) -> Made:
    (a, ours), (b, theirs) = left, right
    mine, other = f"l.{_whole(ours)}", f"r.{_whole(theirs)}"
    value = f"CAST({other} AS BIGINT)"
    grouped = f"WHERE {other} > {mine} GROUP BY {other}"
    query = chance.choice(
        [
            f"SELECT COUNT(*) AS n, MAX({value}) AS m FROM {b} r WHERE {other} < {mine}",
            f"SELECT 1L AS n, {value} AS m FROM {b} r WHERE {other} = {mine}",
            f"SELECT COUNT(*) AS n, {value} AS m FROM {b} r {grouped}",
        ]
    )
    listed, made = _named([(mine, LONG), ("q.n", LONG), ("q.m", LONG)])
    join = chance.choice(["JOIN LATERAL ({}) q", "LEFT JOIN LATERAL ({}) q ON TRUE"])
    return f"SELECT {listed} FROM {a} l {join.format(query)}", made


def _pivot(chance: random.Random, left: Source, _: Source) -> Made:
    name, columns = left
    key, value = _whole(columns), chance.choice(_of(columns, INT, LONG))
    source = f"SELECT {key} AS k, {key} % 2 AS h, {value} AS v FROM {name}"
    made: Columns = [("h", LONG), ("a0", LONG), ("a1", LONG)]
    if chance.random() < 0.5:
        pivot = "PIVOT (COUNT(*) FOR k IN (1 AS a0, 2 AS a1))"
        return f"SELECT CAST(h AS BIGINT) AS h, a0, a1 FROM ({source}) {pivot}", made
    unpivot = "UNPIVOT (v FOR what IN (k, w))"
    source = f"SELECT {key} AS k, {value} AS w, {key} AS h FROM {name}"
    return f"SELECT h, v AS a0, LENGTH(what) AS a1 FROM ({source}) {unpivot}", made


def _explode(chance: random.Random, left: Source, _: Source) -> Made:
    name, columns = left
    key = _whole(columns)
    listed, made = _named([(key, LONG), ("pos", INT), ("e", LONG)])
    outer = chance.choice(["", " OUTER"])
    array = f"FILTER(ARRAY({key}, {key} + 1, 2), i -> i > 1)"
    return f"SELECT {listed} FROM {name} LATERAL VIEW{outer} POSEXPLODE({array}) q AS pos, e", made


def _window(chance: random.Random, left: Source, _: Source) -> Made:
    name, columns = left
    key = _whole(columns)
    other = chance.choice(columns)[0]
    partition = chance.choice([f"PARTITION BY {key} ", f"PARTITION BY {other} ", ""])
    call = chance.choice(
        [
            (f"RANK() OVER ({partition}ORDER BY {other}, {key})", INT),
            (f"COUNT(*) OVER ({partition})", LONG),
            ("COUNT(*) OVER w", LONG),
        ]
    )
    listed, made = _named([*columns[:3], (key, LONG), call])
    named = f" WINDOW w AS ({partition})" if call[0].endswith(" w") else ""
    return f"SELECT {listed} FROM {name}{named}", made


def _top(chance: random.Random, left: Source, _: Source) -> Made:
    name, columns = left
    order = chance.sample([each for each, _ in columns], len(columns))
    down = chance.choice(["", " DESC", " NULLS LAST"])
    offset = chance.choice(["", "", " OFFSET 1"])
    listed, made = _named(columns)
    sql = f"SELECT {listed} FROM {name} ORDER BY {order[0]}{down}, {', '.join(order)}"
    return f"{sql} LIMIT {chance.randint(1, 4)}{offset}", made


Maker = Callable[[random.Random, Source, Source], Made]
MAKERS: list[Maker] = [
    _filter, _group, _group, _distinct, _join, _join, _set, _exists, _window, _top,
    _exists, _mark, _lateral, _pivot, _explode,
]  # fmt: skip
