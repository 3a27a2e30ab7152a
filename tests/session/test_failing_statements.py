"""A statement that fails leaves the database as it was, wherever on its way it fails.

The steps are not listed by hand: a statement is run once to see what it calls in the store, the
catalog and Spark, and then once for each of these, which fails.
"""

from __future__ import annotations

import inspect
import itertools
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyspark
import pytest

import laminar
from laminar.model.trace import WEIGHT
from laminar.runtime.catalog.definitions import to_json
from laminar.store import durable_files

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(laminar.__file__).parent
SPARK = Path(pyspark.__file__).parent / "sql"
WATCHED = tuple(
    str(ROOT / each)
    for each in ("store", "checkpoint", "runtime/catalog", "runtime/spark", "runtime/history")
)
FRAMES = tuple(str(SPARK / each) for each in ("session.py", "classic", "dataframe.py"))
UNWATCHED = (
    # What says why something failed, and reports of who waits for the turn.
    "error_translation.py",
    "turn.py",
)

NO_STEPS = ("closed",)
"""What Arrow asks of a file as that is let go, when nobody hears of an error."""


class Injected(Exception):
    """What no code expects."""


@dataclass(frozen=True)
class Case:
    statement: str
    back: str = ""
    """Makes of the state after the statement the one before it."""


CASES = [
    Case("CREATE TABLE x (k INT DEFAULT 1, c INT CHECK (c > 0))", "DROP TABLE x"),
    Case("CREATE SOURCE x (ts TIMESTAMP, WATERMARK FOR ts AS ts)", "DROP SOURCE x"),
    Case(
        "CREATE MATERIALIZED VIEW x AS SELECT k, MAX(c) AS c FROM sums GROUP BY k",
        "DROP MATERIALIZED VIEW x",
    ),
    Case(
        "CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT k, MIN(c) AS c FROM a GROUP BY k",
        "CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT k, SUM(c) AS c FROM a GROUP BY k",
    ),
    Case(
        "ALTER MATERIALIZED VIEW top SET (refresh_policy = 'full')",
        "ALTER MATERIALIZED VIEW top SET (refresh_policy = 'auto')",
    ),
    Case(
        "ALTER MATERIALIZED VIEW top SET (schedule = '1h')",
        "ALTER MATERIALIZED VIEW top SET (schedule = 'every epoch')",
    ),
    Case("DROP MATERIALIZED VIEW spare", "CREATE MATERIALIZED VIEW spare AS SELECT k FROM a"),
    Case("DROP TABLE b", "CREATE TABLE b (k INT PRIMARY KEY, c INT)"),
    Case("PAUSE MATERIALIZED VIEW top", "RESUME MATERIALIZED VIEW top"),
    Case("RESUME MATERIALIZED VIEW paused", "PAUSE MATERIALIZED VIEW paused"),
    Case("PAUSE SOURCE a", "RESUME SOURCE a"),
    Case("REFRESH MATERIALIZED VIEW top", "INSERT INTO a VALUES (1, 1)"),
    Case("SET laminar.max_fan_out = 77", "RESET laminar.max_fan_out"),
    Case("RESET laminar.collect_limit_rows", "SET laminar.collect_limit_rows = 5000"),
    Case("INSERT INTO a VALUES (5, 5)", "DELETE FROM a WHERE k = 5"),
    Case("INSERT INTO a SELECT k + 10, c FROM a WHERE k = 1", "DELETE FROM a WHERE k > 10"),
    Case("UPDATE a SET c = 3 WHERE k = 2", "UPDATE a SET c = 2 WHERE k = 2"),
    Case("DELETE FROM a WHERE k = 2", "INSERT INTO a VALUES (2, 2)"),
    Case(
        "MERGE INTO a USING (SELECT 7 AS k, 7 AS c) AS q ON a.k = q.k"
        " WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM a WHERE k = 7",
    ),
    Case("CREATE SINK x FROM top WITH (connector = 'files', path = '{}')", "DROP SINK x"),
    Case("DROP SINK kept", "CREATE SINK kept FROM a WITH (connector = 'files', path = '{}')"),
    Case("CREATE SCHEMA y COMMENT 'c'", "DROP SCHEMA y"),
    Case("DROP SCHEMA spare", "CREATE SCHEMA spare"),
    Case(
        "DROP SCHEMA filled CASCADE",
        "CREATE SCHEMA filled; CREATE TABLE filled.a (k INT); CREATE MATERIALIZED VIEW v AS"
        " SELECT k FROM filled.a; CREATE SINK filled.s FROM v WITH"
        " (connector = 'files', path = '{}')",
    ),
    Case("CREATE TABLE spare.x (k INT)", "DROP TABLE spare.x"),
    Case("RESTORE FROM CHECKPOINT 1", "INSERT INTO a VALUES (1, 4)"),
    Case("CHECKPOINT"),
]
QUICK = ("CREATE TABLE", "DROP MATERIALIZED", "PAUSE SOURCE")

NUMBERS = itertools.count()

VIEWS = {
    "sums": "SELECT k, SUM(c) AS c FROM a GROUP BY k",
    "top": "SELECT k, c FROM sums WHERE c > 0",
    "spare": "SELECT k FROM a",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failing")


@pytest.fixture(scope="module")
def db(spark: SparkSession, folder: Path) -> Iterator[laminar.Database]:
    with laminar.connect(folder / "state", spark=spark) as opened:
        opened.execute("CREATE TABLE a (k INT, c INT); CREATE TABLE b (k INT PRIMARY KEY, c INT)")
        for name, query in VIEWS.items():
            opened.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        opened.execute(
            "CREATE MATERIALIZED VIEW paused AS SELECT k FROM a;"
            f"CREATE SINK kept FROM a WITH (connector = 'files', path = '{folder / 'kept'}');"
            "CREATE SCHEMA filled; CREATE TABLE filled.a (k INT);"
            "CREATE MATERIALIZED VIEW v AS SELECT k FROM filled.a; CREATE SINK filled.s FROM v"
            f" WITH (connector = 'files', path = '{folder / 'filled'}'); CREATE SCHEMA spare;"
            "SET laminar.collect_limit_rows = 5000; SET laminar.checkpoint_retained = 1000;"
            "INSERT INTO a VALUES (1, 1), (2, 2)"
        )
        opened.step()
        opened.execute("PAUSE MATERIALIZED VIEW paused; CHECKPOINT; INSERT INTO a VALUES (1, 4)")
        yield opened


def described(db: laminar.Database) -> dict[str, Any]:
    """What a statement may change, in memory; it has to be what the manifest says."""
    engine = db.engine
    catalog, progress = engine.defined.catalog, engine.scheduler.progress
    definitions = json.loads(json.dumps(to_json(catalog.in_order()), default=str))
    stored = json.loads(json.dumps(list(engine.ledger.manifest.catalog), default=str))
    assert definitions == stored
    assert engine.ledger.manifest.state.schemas == catalog.schemas.to_json()
    assert engine.ledger.turn.holder is None
    assert not db._reader.lock.locked()
    offsets = engine.ledger.manifest.offsets
    return {
        "definitions": {
            each["name"]: {**each, "defined_at": "", "sql": "", "born": ""} for each in definitions
        },
        "programs": sorted(catalog.programs),
        "schemas": dict(catalog.schemas.comments),
        "states": {each.name: each.state for each in catalog.registry.views()},
        "paused": sorted(engine.scheduler.paused),
        "gated": sorted(progress.gated),
        "failures": sorted(progress.failures),
        "settings": dict(engine.defined.settings.given),
        "fan_out": catalog.max_fan_out,
        "sources": sorted(engine.defined.sources),
        "sinks": sorted(each.name for each in engine.outputs.sinks.books.sinks()),
        "connected": sorted(engine.outputs.sinks.books.outlets),
        "watermarks": dict(engine.time.watermarks.current),
        "waiting": {
            name: sum(
                pc.sum(batch.read()[WEIGHT]).as_py()
                for batch in engine.ledger.pending.after(name, int(offsets.get(name) or 0))
            )
            for name in engine.defined.tables()
        },
    }


@contextmanager
def watching(calls: dict[CodeType, int]) -> Iterator[None]:
    """Count the calls into the parts that are watched, on this thread."""

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_watched(frame):
            calls[frame.f_code] = calls.get(frame.f_code, 0) + 1

    sys.setprofile(seen)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextmanager
def failing_at(wanted: CodeType, number: int) -> Iterator[None]:
    """Let a call fail, and all others go on."""
    left = number

    def seen(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code is wanted and is_watched(frame):
            left -= 1
            if left == 0:
                raise Injected(wanted.co_qualname)

    sys.setprofile(seen)
    try:
        yield
    finally:
        sys.setprofile(None)


def is_watched(frame: FrameType) -> bool:
    """Whether a call goes into one of the parts, or is a failpoint; generators are none."""
    code, caller = frame.f_code, frame.f_back
    if code is durable_files.failpoint.__code__:
        return not str(frame.f_locals).endswith(".after_sync'}")  # there is nothing left to fail
    if (
        caller is None
        or code.co_name[0] == "<"
        or code.co_name in NO_STEPS
        or code.co_flags & inspect.CO_GENERATOR
    ):
        return False
    file, called_in = code.co_filename, caller.f_code.co_filename
    if file.startswith(FRAMES):
        return called_in.startswith(str(ROOT))
    own = next((each for each in WATCHED if file.startswith(each)), None)
    return own is not None and not called_in.startswith(own) and not file.endswith(UNWATCHED)


def run(db: laminar.Database, script: str, folder: Path) -> None:
    db.execute(script.format(folder / f"sink-{next(NUMBERS)}"))


def check_rows(db: laminar.Database) -> None:
    truth = {}
    db.execute("RESUME MATERIALIZED VIEW top; RESUME SOURCE a")
    db.drain()
    for name, query in VIEWS.items():
        truth[name] = sorted(db.sql(query).rows())
        assert sorted(db.sql(f"SELECT * FROM {name}").rows()) == truth[name], name


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, marks=[] if each.statement.startswith(QUICK) else pytest.mark.long)
        for each in CASES
    ],
    ids=[each.statement[:40] for each in CASES],
)
def test_a_statement_that_fails_changes_nothing(
    db: laminar.Database, folder: Path, case: Case
) -> None:
    before, threads = described(db), threading.active_count()
    calls: dict[CodeType, int] = {}
    with watching(calls):
        run(db, case.statement, folder)
    after = described(db)
    run(db, case.back, folder)
    assert described(db) == before
    wrong = []
    steps = [(code, number) for code, count in calls.items() for number in numbers(code, count)]
    for code, number in steps:
        error: Exception | None = None
        try:
            with failing_at(code, number):
                run(db, case.statement, folder)
        except Exception as raised:
            error = raised
        where = f"{code.co_qualname} ({number}), raised {error!r}"
        try:
            now = described(db)
        except AssertionError as found:
            wrong.append(f"{where}: {str(found)[:300]}")
            break
        if now not in (before, after):
            wrong.append(f"{where}: {differences(before, now)}")
        if now != before:
            run(db, case.back, folder)
        assert described(db) == before, where
    assert not wrong, "\n".join(wrong)
    assert threading.active_count() <= threads + 4
    if not case.statement.startswith("RESTORE"):
        check_rows(db)
        db.execute("INSERT INTO a VALUES (1, 4)")


def numbers(code: CodeType, count: int) -> list[int]:
    """Return which calls of a function shall fail: of failpoints each, of others the first."""
    return list(range(1, count + 1)) if code is durable_files.failpoint.__code__ else [1]


def differences(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {key: (before[key], now[key]) for key in before if before[key] != now[key]}


def test_what_has_failed_opens_again(db: laminar.Database, spark: SparkSession) -> None:
    db.execute("INSERT INTO a VALUES (3, 3)")
    check_rows(db)
    db.close()
    with laminar.connect(db.path, spark=spark) as again:
        again.execute("INSERT INTO a VALUES (4, 4)")
        check_rows(again)


def test_an_injected_error_is_one() -> None:
    with pytest.raises(Injected), failing_at(durable_files.write_atomic.__code__, 1):
        durable_files.write_atomic(Path("x"), b"", point="x")
