"""A process whose Spark is lost again and again; one scenario for each run.

    python -m tests.crash.spark_loss SCENARIO FOLDER [LOSSES SEED]

Every Java process that is killed or halted here was started here.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import laminar
from laminar.session import Database
from laminar.testing.published import published

VIEWS = {
    "sums": "SELECT k, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY k",
    "pairs": "SELECT a.k, a.x, b.n FROM t a JOIN sums b ON a.k = b.k",
    "ranked": "SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, y) AS r FROM t",
    "called": "SELECT k, twice(more(x)) AS x FROM t",
}
"""Merged, joined, by affected groups, and through functions of the user's."""


def java() -> Any:
    """Return the process that is Spark's Java now."""
    gateway: Any = SparkContext._gateway
    return gateway.proc


def lose(how: signal.Signals = signal.SIGKILL) -> None:
    """Lose Spark: kill or halt its Java process."""
    os.kill(java().pid, how)


@contextmanager
def losing(after: float) -> Iterator[threading.Timer]:
    """Lose Spark so many seconds after this begins; it is lost when this is over.

    The process is that of now: a call inside may have started another one by then.
    """
    mine = java()
    timer = threading.Timer(after, lambda: os.kill(mine.pid, signal.SIGKILL))
    timer.start()
    yield timer
    timer.join()
    mine.wait(10)


def define(db: Database, sink: Path | None = None) -> None:
    """Define all that hangs on a session: types, functions, statements, a sink."""
    db.execute("CREATE TABLE t (k INT, x BIGINT, y BIGINT)")
    db.register_function("twice", lambda x: x * 2, "BIGINT")
    db.execute("CREATE FUNCTION more(a BIGINT) RETURN a + 1")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    if sink is not None:
        db.execute(f"CREATE SINK out FROM sums WITH (connector = 'files', path = '{sink}')")


def insert(db: Database, start: int, count: int = 20) -> None:
    """Add rows that are like no others."""
    db.insert("t", [(each % 5, each, start) for each in range(start, start + count)])


def check(db: Database, rows: int) -> None:
    """Compare every view with what its query says now, as bags."""
    assert db.sql("SELECT COUNT(*) FROM t").rows() == [(rows,)]
    for name, query in VIEWS.items():
        found = Counter(db.sql(f"SELECT * FROM {name}").rows())
        assert found == Counter(db.sql(query).rows()), name


def lost(call: Callable[[], Any], *, again: bool = True) -> laminar.SparkLost:
    """Return the error with which a call says that Spark is lost."""
    with pytest.raises(laminar.SparkLost) as found:
        call()
    assert found.value.is_restarted is again
    return found.value


def killed(folder: Path) -> None:
    """The next call says so, the one after it goes on; what was handed out before goes on, too."""
    with laminar.connect(folder, master="local[2]") as db:
        define(db)
        insert(db, 0)
        db.step()
        before, first = db.sql("SELECT * FROM sums ORDER BY k"), java()
        rows = before.rows()
        lose()
        error = lost(lambda: db.sql("SELECT * FROM sums").rows())
        assert "signal 9" in str(error)
        assert first.returncode == -signal.SIGKILL  # nobody is left to be waited for
        assert before.rows() == rows
        assert java().pid != first.pid
        insert(db, 20)
        db.step()
        check(db, 40)
        assert db.metrics().sparks_lost == 1


def every_call(folder: Path) -> None:
    """Whatever is called when Spark goes: one error, and once more it does what it is for."""
    with laminar.connect(folder, master="local[2]") as db:
        define(db)
        insert(db, 0)
        db.step()
        follow = iter(db.subscribe("sums"))
        next(follow)
        rows = 20
        pick = "SELECT SUM(x) FROM t"
        calls: list[Callable[[], Any]] = [
            db.step,
            db.drain,
            lambda: db.sql(pick).arrow(),
            lambda: db.sql(pick).pandas(),
            lambda: list(db.sql("SELECT * FROM t")),
            lambda: next(follow),
            lambda: db.execute("CREATE MATERIALIZED VIEW other AS SELECT MAX(x) AS x FROM t"),
            lambda: db.delete("t", [(0, 0, 0)]),
            db.checkpoint,
        ]
        for call in calls:
            insert(db, rows)
            rows += 20
            with losing(0.05), suppress(laminar.SparkLost):
                call()
            assert not db.engine.ledger.turn.holder
            db.drain()
        # The row that was deleted either is there or is not.
        check(db, db.sql("SELECT COUNT(*) FROM t").rows()[0][0])


def halted(folder: Path) -> None:
    """One that does not answer is ended within a bound, whoever waits for it."""
    with laminar.connect(folder, master="local[2]") as db:
        define(db)
        insert(db, 0)
        db.step()
        insert(db, 20)
        lose(signal.SIGSTOP)
        said = str(lost(db.step))
        assert "halted" in said, said
        db.step()
        check(db, 40)


def two_databases(folder: Path) -> None:
    """What one starts in the place of a Spark that is gone serves the other, too."""
    with (
        laminar.connect(folder / "a", master="local[2]") as one,
        laminar.connect(folder / "b") as other,
        ExitStack() as later,
    ):
        for db in (one, other):
            define(db)
            insert(db, 0)
            db.step()
        reader = later.enter_context(laminar.connect(folder / "a", read_only=True))
        assert reader.sql("SELECT COUNT(*) FROM t").rows() == [(20,)]
        with losing(0.0):
            pass
        for db in (one, other):
            insert(db, 20)
            db.step()
            check(db, 40)
        assert reader.sql("SELECT SUM(n) FROM sums").rows() == [(40,)]
        pid = java().pid
        # Somebody stops the session: the process stays, and so does all that others have in it.
        active = SparkSession.getActiveSession()
        assert active is not None
        active.stop()
        for db in (one, other):
            insert(db, 40)
            db.step()
            check(db, 60)
        assert java().pid == pid


def out_of_memory(folder: Path) -> None:
    """A heap that is too small ends the process, not half of it."""
    with laminar.connect(folder, master="local[2]") as db:
        define(db)
        insert(db, 0)
        db.step()
        huge = "SELECT COLLECT_LIST(REPEAT('x', 100000)) AS c FROM range(200000)"
        error = lost(lambda: db.sql(huge).arrow())
        assert "memory" in str(error)
        insert(db, 20)
        db.step()
        check(db, 40)


def in_the_loop(folder: Path) -> None:
    """`start` goes on by itself, and there is nothing to report."""
    with laminar.connect(folder, master="local[2]") as db:
        define(db)
        db.start()
        for start in (0, 20, 40):
            insert(db, start)
            db.engine.work.inlets.wake()
            if start == 20:
                lose()
            until(lambda start=start: covered(db) >= start + 20)  # type: ignore[misc]
        db.stop()
        check(db, 60)


def covered(db: Database) -> int:
    """Return how many rows epochs have taken; no Spark is asked."""
    trace = db.engine.ledger.manifest.traces.get("t")
    return trace.rows if trace is not None else 0


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, commit by commit."""
    pause = threading.Event()
    for _ in range(1200):
        if holds():
            return
        pause.wait(0.1)
    raise AssertionError("it never came")


def callers(folder: Path) -> None:
    """A caller's session is not replaced: the error says what to do, and that works."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for rows, end in ((0, "stopped"), (20, "killed"), (40, "halted")):
        spark = builder.getOrCreate()
        db = laminar.connect(folder, spark=spark)
        if rows == 0:
            define(db)
        else:
            db.register_function("twice", lambda x: x * 2, "BIGINT")
        db.drain()
        insert(db, rows)
        mine = java()
        if end == "stopped":
            spark.stop()
        else:
            lose(signal.SIGKILL if end == "killed" else signal.SIGSTOP)
        error = lost(db.step, again=False)
        assert "new session" in error.hint
        lost(lambda db=db: db.sql("SELECT 1"), again=False)  # type: ignore[misc]
        db.close()
    # While it is halted: another one is started beside it.
    with laminar.connect(folder, spark=builder.getOrCreate()) as db:
        db.register_function("twice", lambda x: x * 2, "BIGINT")
        db.drain()
        check(db, 60)
    assert mine.poll() is None  # not ours to end
    os.kill(mine.pid, signal.SIGCONT)
    mine.wait(60)  # it ends by itself once it runs: nobody has its input any more


def many_threads(folder: Path) -> None:
    """Whoever calls when Spark goes, on any thread: each call ends, and the rows are exact."""
    with laminar.connect(folder, master="local[2]") as db:
        define(db)
        insert(db, 0)
        db.step()
        for loss in range(1, 4):
            inserted = at_once(db, 20 * loss)
            db.drain()
            check(db, 20 * loss + 20)
            assert inserted == 1
        assert db.metrics().sparks_lost == 3


def at_once(db: Database, start: int) -> int:
    """Lose Spark under calls of several threads, each until it succeeds; count the inserts."""
    done: list[str] = []
    first = threading.Barrier(6)

    def until_done(name: str, call: Callable[[], object]) -> None:
        first.wait(60)
        for _ in range(100):
            try:
                call()
            except laminar.SparkLost:
                continue
            done.append(name)
            return

    calls: dict[str, Callable[[], object]] = {
        "insert": lambda: insert(db, start),
        "step": db.drain,
        "read": lambda: db.sql("SELECT k, SUM(x) FROM called GROUP BY k").rows(),
        "keep": db.checkpoint,
        "define": lambda: db.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW other AS SELECT k FROM t"
        ),
    }
    threads = [
        threading.Thread(target=until_done, args=each, daemon=True) for each in calls.items()
    ]
    for each in threads:
        each.start()
    with losing(0.0):
        first.wait(60)
    for each in threads:
        each.join(300)
        assert not each.is_alive(), "a call hangs"
    assert sorted(done) == sorted(calls)
    return done.count("insert")


def restored(folder: Path) -> None:
    """A RESTORE that meets the loss has either happened or not; once more, and it has."""
    with laminar.connect(folder, master="local[2]") as db:
        define(db, folder / "out")
        db.execute("SET laminar.checkpoint_retained = 100")
        insert(db, 0)
        db.drain()
        kept = db.checkpoint()
        insert(db, 20)
        db.drain()
        for after in (0.0, 0.1, 0.3, 0.6, 1.0):
            before = db.engine.ledger.epoch
            with losing(after), suppress(laminar.SparkLost):
                db.restore(kept)
            assert not db.engine.ledger.turn.holder
            after_it = db.engine.ledger.epoch
            db.drain()
            check(db, 40 if after_it == before else 20)
            db.restore(kept)
            db.drain()
            check(db, 20)
            assert published(folder / "out") == Counter(db.sql("SELECT * FROM sums").rows())
            insert(db, 20)
            db.drain()
            check(db, 40)


def at_random(folder: Path, losses: int, seed: int) -> None:
    """Spark is lost at random times; after each loss views and sink say what a recompute says."""
    chance = random.Random(seed)
    sink = folder / "out"
    with laminar.connect(folder / "state", master="local[2]") as db:
        define(db, sink)
        rows = 0
        for number in range(1, losses + 1):
            insert(db, rows)
            rows += 20
            with losing(chance.uniform(0.0, 4.0)) as timer, suppress(laminar.SparkLost):
                while timer.is_alive():
                    db.step()
                    insert(db, rows, 5)
                    rows += 5
                    db.drain()
            rows = sum(each.rows for each in pending(db)) + covered(db)
            db.drain()
            check(db, rows)
            assert published(sink) == Counter(db.sql("SELECT * FROM sums").rows())
            sys.stdout.write(f"{number} losses, {rows} rows\n")
            sys.stdout.flush()


def pending(db: Database) -> list[Any]:
    """Return the batches that wait for an epoch."""
    start = db.engine.ledger.manifest.offsets.get("t") or 0
    return list(db.engine.ledger.pending.after("t", start))


SCENARIOS: dict[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        *(killed, every_call, two_databases),
        *(halted, out_of_memory, in_the_loop, callers, many_threads, restored, at_random),
    )
}

if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # also for Sparks that a caller starts
    SCENARIOS[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
