"""State folders of older code open, hold what they held, and go on: one folder for each format.

`tools/write_state_fixture.py` writes them; `tests/fixtures/states/README.md` says which is which.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.console.stored_dag import Graph
from laminar.model.trace import Manifest
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.introspection.status import read_status
from laminar.store import ManifestStore
from laminar.testing import ManualClock
from laminar.testing.counted import counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[1] / "fixtures" / "states"
STATES = sorted(path.name.removesuffix(".tar.gz") for path in FOLDER.glob("*.tar.gz"))
NEWEST = "6-spark-41"

QUERIES = {
    "large": "SELECT id, symbol, volume FROM trades WHERE volume > 1",
    "totals": "SELECT symbol, COUNT(*) AS n, SUM(volume) AS v FROM trades WHERE volume > 1"
    " GROUP BY symbol",
    "sizes": "SELECT n, COUNT(*) AS symbols, MAX(v) AS most FROM (SELECT COUNT(*) AS n, SUM(volume)"
    " AS v FROM trades WHERE volume > 1 GROUP BY symbol) GROUP BY n",
    "owned": "SELECT a.owner, t.symbol, t.volume FROM accounts a JOIN trades t ON a.id = t.id",
    "best": "SELECT symbol, MAX(volume) AS top, MIN(id) AS least FROM trades GROUP BY symbol",
    "rich": "SELECT DISTINCT owner FROM accounts WHERE balance >= 50",
    "still": "SELECT owner, SUM(balance) AS b FROM accounts GROUP BY owner",
    "hourly": "SELECT owner, COUNT(*) AS n FROM accounts GROUP BY owner",
    "shown": "SELECT symbol, COUNT(*) AS n FROM trades GROUP BY symbol",
    # Of all windows those that the watermark has passed.
    "bars": "SELECT symbol, w.end AS closed, n FROM (SELECT symbol, window(ts, '10 seconds') AS w,"
    " COUNT(*) AS n FROM trades GROUP BY 1, 2)"
    " WHERE w.end <= (SELECT MAX(ts) - INTERVAL '5' SECOND FROM trades)",
    "counted": "SELECT COUNT(*) AS n, SUM(n) AS total FROM fed",
}
"""View -> the same by the rows of the tables, with nothing that is maintained."""

COLUMNS = {
    "accounts": "id, owner, balance",
    "trades": "id, symbol, volume, CAST(ts AS STRING)",
}


class Opened:
    """A database of older code, with a clock that is set by hand."""

    def __init__(self, db: laminar.Database, clock: ManualClock) -> None:
        self.db = db
        self.clock = clock

    def views(self) -> dict[str, int]:
        """Return view -> the epoch it is at."""
        found = read_status(self.db.path).relations
        return {each.name: each.epoch for each in found if each.name in QUERIES}

    def step(self) -> None:
        """Run epochs until all rows are in; whatever waits for its hour is due."""
        self.clock.advance(7200)
        self.db.drain()
        counts(self.db)  # they begin with the code that counts, and add up

    def holds(self, tables: dict[str, list[list[Any]]]) -> None:
        """Check the rows of the tables."""
        for table, rows in tables.items():
            found = self.db.sql(f"SELECT {COLUMNS[table]} FROM {table}").rows()
            assert sorted(map(list, found)) == sorted(rows), table

    def agrees(self, *, except_for: str | None = None) -> None:
        """Compare every view with its query, at the epoch it is at."""
        at: dict[int, list[str]] = {}
        for view, epoch in self.views().items():
            at.setdefault(epoch, []).append(view)
        for epoch, views in at.items():
            known = {view: QUERIES[view] for view in views if view != except_for}
            stored = self.rows({view: f"SELECT * FROM {view}" for view in known}, None)
            assert stored == self.rows(known, epoch)

    def rows(self, queries: dict[str, str], epoch: int | None) -> dict[str, Counter[str]]:
        """Return the rows of several queries, which are asked at once."""
        parts = [
            f"SELECT '{name}' AS name, to_json(struct(*)) AS row FROM ({query})"
            for name, query in queries.items()
        ]
        found: dict[str, Counter[str]] = {name: Counter() for name in queries}
        for name, row in self.db.sql(" UNION ALL ".join(parts), as_of_epoch=epoch).rows():
            found[name][row] += 1
        return found


def folders(*, quick: tuple[str, ...]) -> list[Any]:
    """All folders; those that are not quick have to wait for `make test-all`."""
    return [
        each if each in quick else pytest.param(each, marks=pytest.mark.long) for each in STATES
    ]


@pytest.fixture(params=STATES)
def about(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """A folder as it was written, in the current directory: its paths are relative."""
    with tarfile.open(FOLDER / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = json.loads(Path("about.json").read_text(encoding="utf-8"))
    return {**found, "name": request.param}


def trade(number: int) -> tuple[Any, ...]:
    at = datetime(2026, 1, 1, 9, 0) + timedelta(seconds=3 * number)
    return number, "abc"[number % 3], number % 4, at


def sum_of_changes(folder: Path) -> Counter[tuple[Any, ...]]:
    """Add up what a sink has been told of `totals`."""
    found: Counter[tuple[Any, ...]] = Counter()
    for path in folder.glob("*.json"):
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            found[row["symbol"], row["n"], row["v"]] += 1 if row["__change"] == "insert" else -1
    return Counter({row: count for row, count in found.items() if count})


@pytest.mark.spark
@pytest.mark.parametrize("about", folders(quick=("1-first",)), indirect=True)
def test_an_old_folder_opens_and_goes_on(about: dict[str, Any], spark: SparkSession) -> None:
    clock, features = ManualClock(datetime.now(UTC)), about["features"]
    with laminar.connect("db", spark=spark, settings=TimeSettings(clock=clock)) as db:
        assert db.recovery.damaged == ()
        opened = Opened(db, clock)
        opened.holds(about["opened"])
        # The turn of one has not come yet: what it does not show waits in a trace of its own.
        opened.agrees(except_for="shown")
        opened.step()
        opened.holds(about["stepped"])
        opened.agrees()
        if "pauses" in features:
            assert opened.views()["still"] < db.metrics().epoch
            db.execute("RESUME MATERIALIZED VIEW still")
        db.insert("trades", [trade(19), trade(20)])
        db.delete("trades", [trade(about["stepped"]["trades"][-2][0])])
        db.delete("accounts", [(1, "owner 1", 25)])
        db.insert("accounts", [(1, "owner 1", 70), (9, "owner 0", 1)])
        opened.step()
        opened.agrees()
        assert set(opened.views().values()) == {db.metrics().epoch}
        if "spills" in features:
            lines = sum(len(each.read_text().splitlines()) for each in Path("in").glob("*.json"))
            numbers = sum(range(lines))  # each row has the next one, over all files
            assert db.sql("SELECT n, total FROM counted").rows() == [(lines, numbers)]
        if "checkpoints" in features:
            db.restore(about["checkpoint"])
            # It was paused then, at an epoch that is not kept any more: only its rows are.
            db.execute("RESUME MATERIALIZED VIEW still")
            opened.step()
            opened.holds(about["then"])
            opened.agrees()
        if "sinks" in features:
            assert sum_of_changes(Path("out")) == Counter(db.sql("SELECT * FROM totals").rows())


def test_its_manifests_say_the_same_when_they_are_written_again(about: dict[str, Any]) -> None:
    for path in Path("db").rglob("manifest*/*.json"):
        raw = json.loads(path.read_bytes().splitlines()[0])
        read = Manifest.from_json(raw)
        written = json.loads(json.dumps(read.to_json()))
        assert Manifest.from_json(written) == read
        if about["name"] == NEWEST:
            assert written == raw


def test_it_is_shown_without_spark(about: dict[str, Any]) -> None:
    manifest = ManifestStore(Path("db")).latest()
    assert manifest is not None
    status = read_status(Path("db"))
    assert status.epoch == manifest.epoch
    assert [each.name for each in status.relations] == [each["name"] for each in manifest.catalog]
    states = {each.name: each.state for each in status.relations}
    assert states.get("still") == ("paused" if "pauses" in about["features"] else "running")
    assert Graph.of(manifest).reads("owned") == ["accounts", "trades"]


def test_it_tells_nothing_of_the_machine_it_was_made_on(about: dict[str, Any]) -> None:
    del about
    texts = [path.read_bytes() for path in Path().rglob("*") if path.is_file()]
    assert not [text for text in texts if re.search(rb"/(tmp|home|root|Users|work)/", text)]


def test_there_is_a_folder_of_every_format() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", readme, re.MULTILINE) == STATES
