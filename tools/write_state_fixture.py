"""Write a small state folder as the code at hand writes it, for `tests/session/test_old_states.py`.

    python tools/write_state_fixture.py NAME [--without FEATURE ...] [--dying-in restore]

A change of a format adds a folder in the new one; those that are there stay. With older code on
PYTHONPATH it writes a folder of an older format, without what that code cannot do yet.

A process of its own fills the folder and dies on purpose. By default that is in its last epoch,
which is in the log but not committed, while more rows wait behind it; or else right after the
commit by which it goes back to a checkpoint. What the tables hold is written down beside.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "states"

DIED = 9
"""The exit code of a process that ended where it should."""

START = datetime(2026, 1, 1, 9, 0)

TABLES = {
    "accounts": "CREATE TABLE accounts (id BIGINT, owner STRING, balance BIGINT{})",
    "trades": "CREATE SOURCE trades (id BIGINT, symbol STRING, volume BIGINT, ts TIMESTAMP{})",
}

VIEWS = {
    "large": "SELECT id, symbol, volume FROM trades WHERE volume > 1",
    "totals": "SELECT symbol, COUNT(*) AS n, SUM(volume) AS v FROM large GROUP BY symbol",
    "sizes": "SELECT n, COUNT(*) AS symbols, MAX(v) AS most FROM totals GROUP BY n",
    "owned": "SELECT a.owner, t.symbol, t.volume FROM accounts a JOIN trades t ON a.id = t.id",
    "best": "SELECT symbol, MAX(volume) AS top, MIN(id) AS least FROM trades GROUP BY symbol",
    "rich": "SELECT DISTINCT owner FROM accounts WHERE balance >= 50",
    "still": "SELECT owner, SUM(balance) AS b FROM accounts GROUP BY owner",
}
"""One that is fused, partial accumulators, a cascade, a join; the last one is paused."""

BARS = (
    "SELECT symbol, TUMBLE_END(ts, INTERVAL '10' SECOND) AS closed, COUNT(*) AS n"
    " FROM trades GROUP BY symbol, TUMBLE(ts, INTERVAL '10' SECOND)"
)
SHOWN = "SELECT symbol, COUNT(*) AS n FROM trades GROUP BY symbol"
HOURLY = "SELECT owner, COUNT(*) AS n FROM accounts GROUP BY owner"
COUNTED = "SELECT COUNT(*) AS n, SUM(n) AS total FROM fed"

FEATURES: dict[str, tuple[str, ...]] = {
    "keys": (),
    "pauses": (),
    "time": (
        f"CREATE MATERIALIZED VIEW bars AS {BARS} EMIT AFTER WATERMARK",
        f"CREATE MATERIALIZED VIEW shown AS {SHOWN} EMIT PERIODICALLY INTERVAL '1' HOUR",
    ),
    "schedules": (f"CREATE MATERIALIZED VIEW hourly WITH (schedule = '1h') AS {HOURLY}",),
    "spills": (
        "CREATE SOURCE fed (n BIGINT) WITH (connector = 'files', path = 'in', buffer_rows = 2,"
        " max_files_per_batch = 1, max_rows = 2, backpressure = 'spill')",
        f"CREATE MATERIALIZED VIEW counted AS {COUNTED}",
    ),
    "settings": (
        "SET laminar.retained_epochs = 3",
        "SET laminar.compaction_fanout = 2",
    ),
    "sinks": ("CREATE SINK out FROM totals WITH (connector = 'files', path = 'out')",),
    "checkpoints": ("SET laminar.checkpoint_interval_ms = 0",),
    "log": (),
}
"""What older code may lack -> the statements for it."""


@dataclass
class Contents:
    """Changes the tables of a database, and knows what they hold."""

    db: Any
    rows: dict[str, list[list[Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})

    def insert(self, table: str, *rows: list[Any]) -> None:
        """Insert rows."""
        self.db.insert(table, [tuple(row) for row in rows])
        self.rows[table] += rows

    def delete(self, table: str, *rows: list[Any]) -> None:
        """Delete rows."""
        self.db.delete(table, [tuple(row) for row in rows])
        self.rows[table] = [row for row in self.rows[table] if row not in rows]

    def told(self) -> dict[str, list[list[Any]]]:
        """Return the rows as JSON can have them: times are text."""
        return {
            table: [[str(v) if isinstance(v, datetime) else v for v in row] for row in rows]
            for table, rows in self.rows.items()
        }


def trade(number: int) -> list[Any]:
    """Return a row; time ascends with the numbers."""
    return [number, "abc"[number % 3], number % 4, START + timedelta(seconds=3 * number)]


def account(number: int, balance: int) -> list[Any]:
    """Return a row."""
    return [number, f"owner {number % 3}", balance]


def feed(numbers: Iterable[int]) -> None:
    """Write files for the source that reads some: two rows each."""
    folder = Path("in")
    folder.mkdir(exist_ok=True)
    for number in numbers:
        lines = f'{{"n": {2 * number}}}\n{{"n": {2 * number + 1}}}\n'
        (folder / f"{number:03d}.json").write_text(lines, encoding="utf-8")


def definitions(features: Collection[str]) -> Iterator[str]:
    """Yield the statements that define everything."""
    keys = ", PRIMARY KEY (id)" if "keys" in features else ""
    mark = ", WATERMARK FOR ts AS ts - INTERVAL '5' SECOND" if "time" in features else ""
    yield TABLES["accounts"].format(keys)
    yield TABLES["trades"].format(mark)
    for view, query in VIEWS.items():
        yield f"CREATE MATERIALIZED VIEW {view} AS {query}"
    for feature in features:
        yield from FEATURES[feature]


def fill(features: Collection[str], dying_in: str) -> None:
    """Fill `db` in the current folder, and die."""
    import laminar

    db = laminar.connect("db")
    rows = Contents(db)
    about: dict[str, Any] = {"features": list(features)}
    feed(range(1))
    for statement in definitions(features):
        db.execute(statement)
    rows.insert("accounts", *(account(n, 25 * n) for n in range(1, 5)))
    rows.insert("trades", *map(trade, range(1, 7)))
    db.step()
    rows.delete("accounts", account(2, 50), account(3, 75))
    rows.insert("accounts", account(2, 75))
    rows.insert("trades", *map(trade, range(7, 10)))
    db.step()
    if "pauses" in features:
        db.execute("PAUSE MATERIALIZED VIEW still")
    rows.insert("accounts", account(5, 10))
    rows.insert("trades", *map(trade, range(10, 13)))
    rows.delete("trades", trade(11))
    db.step()
    about["opened"] = rows.told()
    rows.insert("trades", trade(13))
    if "checkpoints" in features:
        about["checkpoint"] = db.checkpoint()
        about["then"] = rows.told()  # what waits is kept with it
    db.step()
    rows.insert("accounts", account(6, 60))
    rows.insert("trades", trade(14), trade(15))
    rows.delete("trades", trade(13))
    db.step()
    if "spills" in features:
        spill(db)
    if dying_in == "restore":
        about["stepped"] = about["then"]
        at("restore.after_commit", lambda: die(about))
        db.restore(about["checkpoint"])
    about["opened"] = rows.told()
    rows.insert("accounts", account(7, 5))
    rows.insert("trades", trade(16), trade(17))
    if "log" in features:
        about["opened"] = rows.told()  # opening runs the epoch again

    def meanwhile() -> None:
        rows.insert("accounts", account(8, 80))
        rows.insert("trades", trade(18))
        die({**about, "stepped": rows.told()})

    at("manifest.before_write", meanwhile)
    db.step()


def spill(db: Any) -> None:
    """Let a source be read on while an epoch does not come to its end: into files."""

    def wait() -> None:
        while not any(Path("db").rglob("*.spill")):
            time.sleep(0.01)

    at("manifest.before_write", wait)
    feed(range(1, 7))
    db.start()
    wait()
    db.stop()


def at(point: str, act: Callable[[], object]) -> None:
    """Do something once, when a step of the store comes to a point."""
    try:
        files: Any = importlib.import_module("laminar.store.durable_files")
    except ModuleNotFoundError:
        files = importlib.import_module("laminar.store.files")  # as it was called once
    nothing = files.failpoint

    def reached(name: str) -> None:
        if name == point:
            files.failpoint = nothing
            act()

    files.failpoint = reached


def die(about: dict[str, Any]) -> None:
    """End here, as if killed."""
    Path("about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    os._exit(DIED)


LEFT_OUT = {"lock", "ports"}
"""What every process makes anew, and what tells of the machine."""


def pack(folder: Path, target: Path) -> None:
    """Pack a folder, without times and owners."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if not LEFT_OUT & set(name.parts):
                archive.add(path, str(name), recursive=False, filter=_plain)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> int:
    """Run as a command."""
    asked = argparse.ArgumentParser(description="Write a state folder for the tests.")
    asked.add_argument("name")
    asked.add_argument("--without", nargs="*", default=[], choices=[*FEATURES], metavar="FEATURE")
    asked.add_argument("--dying-in", default="epoch", choices=["epoch", "restore"])
    asked.add_argument("--fill", action="store_true", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.fill:
        fill([each for each in FEATURES if each not in given.without], given.dying_in)
        return 1  # nobody comes back from there
    target = FIXTURES / f"{given.name}.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--fill"]
        if subprocess.run(command, cwd=folder, check=False).returncode != DIED:
            return 1
        pack(Path(folder), target)
    print(f"{target.name}: {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
