from __future__ import annotations

import operator
import os
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.model.event_time import END_OF_TIME
from laminar.runtime.catalog.settings import TimeSettings
from laminar.testing import ManualClock, assert_same_bag

from .time_model import (
    Clock,
    Row,
    Sessions,
    Windows,
    cumulate,
    hop,
    summed,
    tumble,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, 9, 0)

THOROUGH = os.environ.get("LAMINAR_TESTS") == "all"
SOAK = "LAMINAR_SOAK" in os.environ
# Of seed 10, a row that is late by itself joins a session of its own batch that is not.
SEEDS = range(1, 13) if SOAK else (1, 5, 12) if THOROUGH else (5,)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def second(moment: datetime) -> int:
    return round((moment - START).total_seconds())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, 10, 0, tzinfo=UTC))


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, clock: ManualClock) -> Iterable[laminar.Database]:
    with laminar.connect(tmp_path, spark=spark, settings=TimeSettings(clock=clock)) as found:
        yield found


def source(db: laminar.Database, name: str = "ev", delay: int = 5) -> None:
    db.execute(
        f"CREATE SOURCE {name} (k STRING, x BIGINT, ts TIMESTAMP,"
        f" WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)"
    )


def put(db: laminar.Database, rows: Iterable[Row], name: str = "ev") -> None:
    db.insert(name, [(key, value, at(time)) for key, value, time in rows])


def rows(db: laminar.Database, view: str) -> list[tuple[Any, ...]]:
    found = db.sql(f"SELECT * FROM {view}").rows()
    return [tuple(second(v) if isinstance(v, datetime) else v for v in row) for row in found]


def view(name: str, window: str, clauses: str, of: str = "ev") -> str:
    start, end = window.replace("(", "_START(", 1), window.replace("(", "_END(", 1)
    return (
        f"CREATE MATERIALIZED VIEW {name} AS SELECT k, {start} AS a, {end} AS b, COUNT(*) AS n,"
        f" SUM(x) AS s, FIRST(x) AS f, LAST_VALUE(x) AS l FROM {of} GROUP BY k, {window} {clauses};"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_agree_with_a_model(db: laminar.Database, seed: int) -> None:
    """Every kind of window, with disorder, copies, late rows and punctuation."""
    source(db)
    late = "ALLOW LATENESS INTERVAL '15' SECOND"
    db.execute(
        view("tu", "TUMBLE(ts, INTERVAL '10' SECOND, INTERVAL '3' SECOND)", "EMIT AFTER WATERMARK")
        + view("ho", "HOP(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND)", f"EMIT FINAL {late}")
        + view(
            "cu",
            "CUMULATE(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
            f"EMIT ON WINDOW CLOSE {late}",
        )
        + view(
            "se", "SESSION(ts, INTERVAL '6' SECOND)", f"EMIT AFTER WATERMARK {late} LATE DATA TO lo"
        )
        + "CREATE MATERIALIZED VIEW top AS SELECT TUMBLE_START(b, INTERVAL '30' SECOND) AS a,"
        " SUM(n) AS n, MIN_BY(f, STRUCT(b, k)) AS f FROM cu"
        " GROUP BY TUMBLE(b, INTERVAL '30' SECOND) EMIT AFTER WATERMARK;"
    )
    model: dict[str, Windows | Sessions] = {
        "tu": Windows(tumble(10, 3)),
        "ho": Windows(hop(10, 4), lateness=15, final=True),
        "cu": Windows(cumulate(5, 20), lateness=15),
        "se": Sessions(6, lateness=15),
    }
    mark = Clock(delay=5)
    chance = random.Random(seed)
    time, number = 0, 0
    for epoch in range(6 if THOROUGH else 5):
        time += chance.randrange(5, 25)
        batch: list[Row] = [
            (chance.choice("ab"), chance.randrange(9), max(0, time - chance.choice((0, 2, 4, 9))))
            for _ in range(5)
        ]
        batch += [(chance.choice("ab"), 7, max(0, time - chance.randrange(20, 50)))]
        batch += batch[:1]
        said = time + chance.randrange(30) if epoch == 4 or chance.random() < 0.2 else None
        if said is not None:
            db.advance_watermark("ev", at(said))
        put(db, batch)
        report = db.step()
        if epoch == 3:
            db.engine.settle()  # merging segments changes nothing
        numbered = [(row, number + place) for place, row in enumerate(batch)]
        number += len(batch)
        mark.move([row[2] for row in batch], said)
        for name, each in model.items():
            each.epoch(numbered, mark)
            expected = [(k, *window, *summed(held)) for k, window, held in each.shown(mark)]
            assert_same_bag(rows(db, name), expected)
            assert db.metrics().late_rows.get(name, 0) == each.late
        assert report is not None
        above = model["cu"]
        assert isinstance(above, Windows)
        outer: dict[int, list[tuple[int, str, int, int]]] = {}
        for k, window, held in above.shown(mark):
            outer.setdefault(window[1] // 30 * 30, []).append(
                (window[1], k, len(held), summed(held)[2])
            )
        assert mark.mark is not None
        # The next window of the parent ends after the watermark, on a multiple of five.
        due = [a for a in outer if a + 30 <= mark.mark // 5 * 5 + 5]
        assert_same_bag(
            rows(db, "top"), [(a, sum(r[2] for r in outer[a]), min(outer[a])[3]) for a in due]
        )
    assert len(rows(db, "lo")) == model["se"].late > 0
    # State of windows that are final is gone; what was shown stays.
    db.end_of_stream("ev")
    db.step()
    traces = db.engine.ledger.manifest.traces
    state = ("tu#1!partial", "ho#1!partial", "cu#1!partial", "se#1", "top#1!partial")
    assert {name: traces[name].rows for name in state} == dict.fromkeys(state, 0)
    assert len(rows(db, "ho")) == len(model["ho"].groups)  # type: ignore[union-attr]


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_batches_do_not_show_in_sessions(db: laminar.Database, seed: int) -> None:
    chance = random.Random(seed)
    # Each row in a batch of its own: hundreds of them take minutes.
    size = (300 if seed == 1 else 120) if SOAK else 60 if THOROUGH else 30
    times = sorted(chance.randrange(size + 80) for _ in range(size))
    # Disorder within what the watermark allows for.
    jumbled = sorted(times, key=lambda time: time + chance.randrange(5))
    data: list[Row] = [(chance.choice("ab"), place, time) for place, time in enumerate(jumbled)]
    cuts = {"one": 1, "seven": 7, "many": len(data) if THOROUGH else 12}
    for name, parts in cuts.items():
        source(db, name)
        window = "SESSION(ts, INTERVAL '7' SECOND)"
        db.execute(view(f"{name}_s", window, "EMIT AFTER WATERMARK", of=name))
        places = sorted(chance.sample(range(1, len(data)), parts - 1))
        for start, stop in zip([0, *places], [*places, len(data)], strict=True):
            put(db, data[start:stop], name)
            db.step()
        db.end_of_stream(name)
    db.step()
    model = Sessions(7)
    model.epoch([(row, place) for place, row in enumerate(data)], Clock(5))
    expected = [
        (k, *window, *summed(held)) for k, window, held in model.shown(Clock(0, mark=END_OF_TIME))
    ]
    for name in cuts:
        assert_same_bag(rows(db, f"{name}_s"), expected)


@pytest.mark.long
def test_a_session_falls_apart_and_comes_together(db: laminar.Database) -> None:
    source(db, delay=100)
    window = "SESSION(ts, INTERVAL '10' SECOND)"
    db.execute(view("se", window, ""))
    db.execute(
        "CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS c, SUM(n) AS n FROM se GROUP BY k"
    )
    put(db, [("a", 1, 0), ("a", 2, 8), ("a", 3, 16), ("b", 9, 8)])
    db.step()
    db.delete("ev", [("a", 2, at(8))])
    db.step()
    assert_same_bag(
        rows(db, "se"),
        [("a", 0, 10, 1, 1, 1, 1), ("a", 16, 26, 1, 3, 3, 3), ("b", 8, 18, 1, 9, 9, 9)],
    )
    put(db, [("a", 5, 10)])
    db.step()
    assert_same_bag(rows(db, "se"), [("a", 0, 26, 3, 9, 1, 3), ("b", 8, 18, 1, 9, 9, 9)])
    assert_same_bag(rows(db, "sums"), [("a", 1, 3), ("b", 1, 1)])


def test_the_chain_of_bars(db: laminar.Database) -> None:
    """Seconds, minutes and hours, in the words of the specification."""
    db.execute(
        "CREATE SOURCE trades (symbol STRING, price DOUBLE, quantity BIGINT, event_time TIMESTAMP,"
        " WATERMARK FOR event_time AS event_time - INTERVAL '0' SECOND)"
    )
    steps = (("trades", "ohlc_1s", "second"), ("ohlc_1s", "ohlc_1m", "minute"))
    for parent, name, unit in (*steps, ("ohlc_1m", "ohlc_1h", "hour")):
        time, o, h, lo, c, v = "bar_time", "open", "high", "low", "close", "volume"
        if parent == "trades":
            time, o, h, lo, c, v = "event_time", "price", "price", "price", "price", "quantity"
        db.execute(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT symbol,"
            f" TUMBLE_START({time}, INTERVAL '1 {unit}') as bar_time, FIRST_VALUE({o}) as open,"
            f" MAX({h}) as high, MIN({lo}) as low, LAST_VALUE({c}) as close, SUM({v}) as volume"
            f" FROM {parent} GROUP BY symbol, TUMBLE({time}, INTERVAL '1 {unit}')"
            " EMIT AFTER WATERMARK"
        )

    def trade(price: float, time: float) -> tuple[str, float, int, datetime]:
        return ("a", price, 1, at(time))

    db.insert("trades", [trade(100, 0.1), trade(105, 0.5), trade(98, 0.5), trade(7, 59.2)])
    db.step()
    assert rows(db, "ohlc_1s") == [("a", 0, 100.0, 105.0, 98.0, 98.0, 3)]
    db.insert("trades", [trade(50, 59.999)])
    db.step()
    assert rows(db, "ohlc_1m") == []
    # The last second of the minute closes, and with it the minute; of the hour nothing shows yet.
    db.advance_watermark("trades", at(60))
    report = db.step()
    assert report is not None
    assert report.rows_in == 0
    assert rows(db, "ohlc_1m") == [("a", 0, 100.0, 105.0, 7.0, 50.0, 5)]
    assert rows(db, "ohlc_1h") == []
    db.insert("trades", [trade(1, 3599.5), trade(2, 3600)])
    db.step()
    assert rows(db, "ohlc_1h") == [("a", 0, 100.0, 105.0, 1.0, 1.0, 6)]
    assert db.step() is None


def test_time_survives_and_never_goes_back(
    spark: SparkSession, tmp_path: Path, clock: ManualClock
) -> None:
    settings = TimeSettings(clock=clock, late_rows_kept=2)
    with laminar.connect(tmp_path, spark=spark, settings=settings) as db:
        source(db)
        db.execute("CREATE TABLE names (k STRING, name STRING)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT name, TUMBLE_END(ts, INTERVAL '10' SECOND) AS b,"
            " COUNT(*) AS n FROM ev JOIN names USING (k)"
            " GROUP BY name, TUMBLE(ts, INTERVAL '10' SECOND) EMIT AFTER WATERMARK"
        )
        with pytest.raises(laminar.NoWatermark):
            db.advance_watermark("names", at(1))
        db.insert("names", [("a", "Anna")])
        # Two hours ahead of the clock: kept out, and the watermark does not run away.
        put(db, [("a", 1, 1), ("a", 2, 2), ("a", 0, 3600 * 3)])
        report = db.step()
        assert report is not None
        assert report.late_rows == {"ev": 1}
        assert db.sql("SELECT COUNT(*) FROM ev").rows() == [(2,)]
        db.advance_watermark("ev", at(20))  # said, but no epoch has acted on it
    with laminar.connect(tmp_path, spark=spark, settings=settings) as db:
        marks = db.engine.ledger.manifest.watermarks
        assert rows(db, "v") == []
        db.step()
        assert rows(db, "v") == [("Anna", 10, 2)]
        db.advance_watermark("ev", at(3))  # behind: nothing to do
        assert db.step() is None
        put(db, [("a", 5, 4), ("a", 6, 5), ("a", 7, 25)])
        db.step()
        now = db.engine.ledger.manifest.watermarks
        assert all(now[name] >= mark for name, mark in marks.items())
        assert now["ev"] == now["v"]
        assert "names" not in now
        assert db.metrics().late_rows == {"ev": 1, "v": 2}
        listed = db.sql("SELECT relation, reason, epoch FROM laminar_system.late_rows").rows()
        assert listed == [("v", "late", 3), ("v", "late", 3)]
        progress = db.sql("SELECT name, watermark FROM laminar_system.watermarks").rows()
        assert sorted(progress) == [("ev", at(20)), ("v", at(20))]
        # Deleting takes back what is open; what is final stays.
        db.delete("ev", [("a", 1, at(1)), ("a", 7, at(25))])
        db.end_of_stream("ev")
        db.step()
        assert rows(db, "v") == [("Anna", 10, 2)]


def test_a_late_row_corrects_everything_downstream(db: laminar.Database) -> None:
    source(db, delay=0)
    db.execute(
        view(
            "se",
            "SESSION(ts, INTERVAL '5' SECOND)",
            "EMIT AFTER WATERMARK ALLOW LATENESS INTERVAL '30' SECOND",
        )
        + "CREATE MATERIALIZED VIEW m AS SELECT TUMBLE_START(b, INTERVAL '1' MINUTE) AS a,"
        " COUNT(*) AS c, SUM(n) AS n FROM se GROUP BY TUMBLE(b, INTERVAL '1' MINUTE)"
        " EMIT AFTER WATERMARK"
    )
    put(db, [("a", 1, 40), ("a", 2, 48), ("a", 3, 62)])
    db.step()
    assert_same_bag(rows(db, "se"), [("a", 40, 45, 1, 1, 1, 1), ("a", 48, 53, 1, 2, 2, 2)])
    assert rows(db, "m") == [(0, 2, 2)]
    put(db, [("a", 9, 44)])  # joins two sessions that were shown, in a minute that was shown
    db.step()
    assert rows(db, "se") == [("a", 40, 53, 3, 12, 1, 2)]
    assert rows(db, "m") == [(0, 1, 3)]


@pytest.mark.long
def test_clauses_of_the_wall_clock(db: laminar.Database, clock: ManualClock) -> None:
    """EMIT PERIODICALLY, and rows that leave when they are old."""
    db.execute("SET laminar.aging_rows = 2")
    db.execute(
        "CREATE TABLE t (k STRING, x BIGINT, ts TIMESTAMP);"
        "CREATE MATERIALIZED VIEW p AS SELECT k, SUM(x) AS s FROM t GROUP BY k"
        " EMIT PERIODICALLY INTERVAL '10' SECOND;"
        "CREATE MATERIALIZED VIEW pp AS SELECT SUM(s) AS s FROM p;"
        "CREATE MATERIALIZED VIEW young AS SELECT k, COUNT(*) AS n FROM t"
        " WHERE ts > now() - INTERVAL '1' MINUTE AND x > 0 GROUP BY k"
    )
    with pytest.raises(laminar.NonDeterministic):
        db.execute("CREATE MATERIALIZED VIEW bad AS SELECT now() AS n FROM t WHERE ts > now()")
    now = 3600
    put(db, [("a", 1, now), ("a", 2, now - 30), ("b", 3, now - 59), ("b", 4, now - 60)], "t")
    db.step()
    assert rows(db, "p") == []
    assert_same_bag(rows(db, "young"), [("a", 2), ("b", 1)])
    clock.advance(1)
    db.step()
    assert rows(db, "young") == [("a", 2)]
    put(db, [("a", 10, now + 3)], "t")
    db.step()
    assert rows(db, "p") == []
    assert rows(db, "young") == [("a", 3)]
    clock.advance(10)
    db.step()
    assert_same_bag(rows(db, "p"), [("a", 13), ("b", 7)])
    assert rows(db, "pp") == [(20,)]
    assert db.step() is None
    # Three rows are due to leave, of which one epoch takes two.
    clock.advance(100)
    db.step()
    assert rows(db, "young") == [("a", 1)]
    db.step()
    assert rows(db, "young") == []
    assert db.step() is None


@pytest.mark.long
def test_joins_on_time(db: laminar.Database) -> None:
    """Rows within reach of each other, and the nearest row before; old segments are not read."""
    source(db, "a", delay=0)
    source(db, "b", delay=0)
    db.execute(
        "CREATE MATERIALIZED VIEW near AS SELECT a.k, a.x AS ax, b.x AS bx FROM a JOIN b"
        " ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '3' SECOND AND a.ts + INTERVAL '5' SECOND;"
        "CREATE MATERIALIZED VIEW last AS SELECT a.k, a.x AS ax, b.x AS bx FROM a ASOF JOIN b"
        " MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k;"
        "CREATE MATERIALIZED VIEW later AS SELECT a.k, a.x AS ax, b.x AS bx FROM a ASOF JOIN b"
        " MATCH_CONDITION (b.ts > a.ts) ON a.k = b.k"
    )
    chance = random.Random(3)
    held: dict[str, list[Row]] = {"a": [], "b": []}
    read: list[int] = []
    bound = type(db.engine.env.store).frame

    def counted(store: Any, schema: str, segments: Any) -> Any:
        read.append(len(segments))
        return bound(store, schema, segments)

    for epoch in range(5):
        for name, rows_of in held.items():
            fresh = [
                (chance.choice("pq"), 100 * epoch + n, 20 * epoch + chance.randrange(12))
                for n in range(4)
            ]
            rows_of += fresh
            put(db, fresh, name)
        if epoch == 3:
            gone = held["b"].pop(0)
            db.delete("b", [(gone[0], gone[1], at(gone[2]))])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(db.engine.env.store), "frame", counted)
            db.step()
        a, b = held["a"], held["b"]
        expected = [
            (k, x, y) for k, x, s in a for key, y, t in b if key == k and s - 3 <= t <= s + 5
        ]
        assert_same_bag(rows(db, "near"), expected)
        nearest, following = [], []
        for k, x, s in a:
            before = [(t, y) for key, y, t in b if key == k and t <= s]
            after = [(t, y) for key, y, t in b if key == k and t > s]
            nearest.append((k, x, max(before)[1] if before else None))
            first = min((t for t, _ in after), default=None)
            following.append((k, x, max(((y for t, y in after if t == first)), default=None)))
        assert_same_bag(rows(db, "last"), nearest)
        assert_same_bag(rows(db, "later"), following)
    asked = "SELECT a.k, a.x, b.x FROM a ASOF JOIN b MATCH_CONDITION ({}) ON a.k = b.k WHERE 1 = 1"
    assert_same_bag(db.sql(asked.format("a.ts >= b.ts")).rows(), nearest)
    assert_same_bag(db.sql(asked.format("b.ts > a.ts")).rows(), following)
    assert 1 in read  # of five segments, the newest is all that an epoch's rows can meet


def test_a_row_is_late_once_for_a_view_that_was_held(db: laminar.Database) -> None:
    """What came too late before a pause, or during it, is late, and not in the view."""
    source(db, "ev", delay=0)
    window = "TUMBLE(ts, INTERVAL '10' SECOND)"
    db.execute(
        f"CREATE MATERIALIZED VIEW w AS SELECT SUM(x) AS x FROM ev GROUP BY {window}"
        " EMIT AFTER WATERMARK LATE DATA TO l"
    )
    put(db, [("a", 1, 1), ("a", 2, 25)], "ev")
    db.step()
    put(db, [("a", 4, 2)], "ev")
    db.step()
    db.execute("PAUSE MATERIALIZED VIEW w")
    put(db, [("a", 8, 3), ("a", 16, 45)], "ev")
    db.step()
    db.execute("RESUME MATERIALIZED VIEW w")
    assert_same_bag(rows(db, "w"), [(1,), (2,)])
    assert_same_bag(db.sql("SELECT x FROM l").rows(), [(4,), (8,)])
    assert db.metrics().late_rows == {"w": 2}


def test_windows_of_a_view_that_was_paused_before_its_first_watermark(db: laminar.Database) -> None:
    """While one source is silent nothing closes; what then closes for others waits for a pause."""
    source(db, "ev", delay=0)
    source(db, "other", delay=0)
    window = "TUMBLE(ts, INTERVAL '10' SECOND)"
    db.execute("CREATE MATERIALIZED VIEW both AS SELECT * FROM ev UNION ALL SELECT * FROM other")
    for name in ("v", "w"):
        db.execute(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT SUM(x) AS x FROM both GROUP BY {window}"
            " EMIT AFTER WATERMARK"
        )
    put(db, [("a", 1, 1), ("a", 2, 2)], "ev")
    db.step()
    db.execute("PAUSE MATERIALIZED VIEW w")
    put(db, [("a", 4, 45)], "ev")
    put(db, [("a", 8, 45)], "other")
    db.step()
    assert (rows(db, "v"), rows(db, "w")) == ([(3,)], [])
    db.execute("RESUME MATERIALIZED VIEW w")
    assert rows(db, "w") == [(3,)]


@pytest.mark.long
def test_the_nearest_row_follows_every_change(db: laminar.Database) -> None:
    """Rows come and go on both sides, at any time, some at the same one, some with NULL."""
    tests = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    if not THOROUGH:
        tests = {name: tests[name] for name in ("ge", "lt")}
    db.execute("CREATE TABLE a (k STRING, t INT, x INT); CREATE TABLE b (k STRING, t INT, y INT)")
    for name, sign in ((name, signs[name]) for name in tests):
        db.execute(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT a.*, b.t AS bt, b.y FROM a ASOF JOIN b"
            f" MATCH_CONDITION (a.t {sign} b.t) ON a.k = b.k"
        )
    chance = random.Random(11)
    held: dict[str, list[tuple[Any, ...]]] = {"a": [], "b": []}
    for epoch in range(12 if SOAK else 6 if THOROUGH else 3):
        for name in chance.choice((["a", "b"], ["a"], ["b"])) if epoch else ("a", "b"):
            there = held[name]
            gone = chance.sample(there, min(len(there), chance.randrange(4)))
            fresh = [
                (chance.choice(("p", "q", None)), chance.choice((*range(9), None)), n % 3)
                for n in range(chance.randrange(1, 5))
            ]
            db.delete(name, gone)
            db.insert(name, fresh)
            for row in gone:
                there.remove(row)
            there += fresh
        db.step()
        for name, test in tests.items():
            expected = []
            for k, t, x in held["a"]:
                near = [
                    (s, y)
                    for key, s, y in held["b"]
                    if None not in (k, t, s) and key == k and test(t, s)
                ]
                times = [s for s, _ in near]
                best = (max if name in ("ge", "gt") else min)(times, default=None)
                found = max(((s, y) for s, y in near if s == best), default=(None, None))
                expected.append((k, t, x, *found))
            assert_same_bag(rows(db, name), expected)


@pytest.mark.long
def test_first_and_last_go_by_arrival(db: laminar.Database) -> None:
    """Without event time, rows count in the order they came; deleting takes the newest copy."""
    db.execute(
        "CREATE TABLE t (k STRING, x INT);"
        "CREATE MATERIALIZED VIEW f AS SELECT k, FIRST(x) AS f, LAST_VALUE(x) AS l,"
        " FIRST(x) IGNORE NULLS AS fn, LAST(x) FILTER (WHERE x < 5) AS small, ANY_VALUE(x) AS a"
        " FROM t GROUP BY k;"
        "CREATE MATERIALIZED VIEW g AS SELECT FIRST(f) AS f, LAST(l) AS l FROM f;"
        "CREATE MATERIALIZED VIEW h AS SELECT LAST(y) AS l FROM"
        " (SELECT x AS y FROM t WHERE k = 'a' UNION ALL SELECT x FROM t WHERE k = 'b')"
    )
    db.insert("t", [("a", None), ("a", 3), ("b", 9)])
    db.insert("t", [("a", 7), ("a", 3)])
    db.step()
    assert_same_bag(rows(db, "f"), [("a", None, 3, 3, 3, None), ("b", 9, 9, 9, None, 9)])
    # In a view there is no arrival: the order is that of its values.
    assert rows(db, "g") == [(None, 9)]
    assert rows(db, "h") == [(3,)]
    db.delete("t", [("a", 3)])
    db.step()
    assert_same_bag(rows(db, "f"), [("a", None, 7, 3, 3, None), ("b", 9, 9, 9, None, 9)])
    db.insert("t", [("b", 2)])
    db.delete("t", [("b", 2)])  # while it waits
    db.execute("UPDATE t SET x = 4 WHERE x IS NULL")
    with pytest.raises(laminar.RowNotFound):
        db.delete("t", [("a", 3), ("a", 3)])
    db.step()
    assert_same_bag(rows(db, "f"), [("a", 3, 4, 3, 4, 3), ("b", 9, 9, 9, None, 9)])
    assert db.sql("SELECT * FROM t ORDER BY k, x").rows() == [
        ("a", 3),
        ("a", 4),
        ("a", 7),
        ("b", 9),
    ]
    with pytest.raises(laminar.NonDeterministic):
        db.execute(
            "CREATE MATERIALIZED VIEW bad WITH (refresh_policy = 'full') AS"
            " SELECT FIRST(x) AS f FROM t"
        )
    assert any("emission" in line for (line,) in _explained(db))


def _explained(db: laminar.Database) -> list[tuple[str, ...]]:
    source(db)
    db.execute(view("v", "TUMBLE(ts, INTERVAL '1' DAY)", "EMIT FINAL LATE DATA TO lost"))
    found: list[tuple[str, ...]] = db.execute("EXPLAIN MATERIALIZED VIEW v").rows()
    found += db.execute("EXPLAIN MATERIALIZED VIEW lost").rows()
    with pytest.raises(laminar.RelationExists):
        db.execute("CREATE TABLE lost (a INT)")
    db.execute("DROP MATERIALIZED VIEW v")
    with pytest.raises(laminar.UnknownRelation):
        db.sql("SELECT * FROM lost")
    return found
