"""The state of a database, from its files alone."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from laminar.checkpoint import CheckpointStorage, DagCheckpointConfig, DagCheckpointMetadata
from laminar.cli import main
from laminar.cli.checkpoints import read_checkpoints
from laminar.cli.status import find_state
from laminar.errors import DatabaseNotFound, ManifestCorrupt, SegmentMissing
from laminar.model.state import EngineState
from laminar.model.trace import WEIGHT, Manifest, Segment, Trace
from laminar.runtime.catalog.definitions import Definition, TableDefinition, ViewDefinition, to_json
from laminar.runtime.introspection import status as module
from laminar.runtime.introspection.status import StatusReader, read_status
from laminar.store import ManifestStore, PendingLog, parquet


def segment(root: Path, name: str, epoch: int, weights: list[int]) -> Segment:
    data = pa.table({"n": pa.array(range(len(weights)), pa.int64()), WEIGHT: weights})
    path = root / "data" / f"{name}-{epoch}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parquet.encode(data))
    inserts = min(weights) > 0
    file = str(path.relative_to(root))
    return Segment((file,), epoch, epoch, len(weights), path.stat().st_size, inserts, ("crc32:0",))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    root = tmp_path / "db"
    columns = (("n", "BIGINT", True),)
    endless = {"rows_per_batch": "5"}
    definitions: dict[str, Definition] = {
        "t": TableDefinition("t", columns),
        "s": TableDefinition("s", columns, is_source=True, connector="datagen", options=endless),
        "x": TableDefinition("x", columns, is_source=True, connector="of my own"),
        "v": ViewDefinition("v", "SELECT n FROM t"),
        "v2": ViewDefinition("v2", "SELECT SUM(n) AS n FROM t"),
        "f": ViewDefinition("f", "SELECT n FROM t"),
    }
    deltas = (segment(root, "t", 1, [1, 1, 3]), segment(root, "t", 2, [-1, 2]))
    for epoch in (1, 2):
        PendingLog(root).append("t", pa.table({"n": [1]}))
        traces = {
            "t": Trace("n BIGINT", deltas[:epoch]),
            "v": Trace("n BIGINT", (segment(root, "v", 1, [1]),)),
            "v2#1!partial": Trace("n BIGINT", (segment(root, "v2", 1, [1, 1]),)),
        }
        state = EngineState(fused=frozenset({"f"}), paused=frozenset({"v"}))
        at = f"2026-01-01T00:00:0{epoch}+00:00"
        offsets = {"t": 1, "s": 10}
        ManifestStore(root).commit(
            Manifest(epoch, traces, offsets, to_json(definitions), {}, state, at)
        )
    return root


def test_rows_are_counted_as_a_bag_and_nothing_is_written(state: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in state.rglob("*")}
    found = read_status(state, now=datetime(2026, 1, 1, 0, 1, 2, tzinfo=UTC))
    assert (found.epoch, found.oldest_epoch, found.age_seconds) == (2, 1, 60)
    by_name = {each.name: each for each in found.relations}
    t = by_name["t"]
    assert (t.kind, t.rows, t.stored_rows, t.segments) == ("table", 6, 5, 2)
    assert (t.waiting_rows, t.behind) == (1, True)
    assert (by_name["s"].behind, by_name["x"].behind) == (True, None)
    assert (by_name["v"].rows, by_name["v"].state) == (1, "paused")
    # v2 is no part of v, though its name begins like that.
    assert (by_name["v"].segments, by_name["v2"].segments) == (1, 1)
    assert (by_name["v2"].rows, by_name["v2"].stored_rows) == (None, 2)
    assert (by_name["f"].rows, by_name["f"].bytes) == (None, 0)
    assert {path: path.stat().st_mtime_ns for path in state.rglob("*")} == before
    assert json.loads(json.dumps(found.as_json()))["relations"][0]["name"] == "t"


def test_what_cannot_have_changed_is_read_once(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    asked: list[str] = []
    clock = [0.0]
    weights, has_more = module._weights, module._has_more

    def counting(path: Path) -> int:
        read.append(path.name)
        return weights(path)

    def asking(table: TableDefinition, offset: object, seconds: float) -> bool | None:
        asked.append(table.name)
        return has_more(table, offset, seconds)

    monkeypatch.setattr(module, "_weights", counting)
    monkeypatch.setattr(module, "_has_more", asking)
    reader = StatusReader(state, patience=10.0, clock=lambda: clock[0])
    first = reader.read()[1]
    assert sorted(read) == ["t-1.parquet", "t-2.parquet", "v-1.parquet"]
    assert sorted(asked) == ["s", "x"]
    clock[0] = 9.9
    assert reader.read()[1].relations == first.relations
    assert (len(read), len(asked)) == (3, 2)
    clock[0] = 10.0
    reader.read()
    assert (len(read), len(asked)) == (3, 4)
    # Weights that are all 1 are not read at all.
    manifest = ManifestStore(state).latest()
    assert manifest is not None
    units = replace(segment(state, "t", 3, [1, 1]), units=True)
    traces = {**manifest.traces, "t": manifest.traces["t"].append(units)}
    ManifestStore(state).commit(replace(manifest, epoch=3, traces=traces))
    assert [each.rows for each in reader.read()[1].relations if each.name == "t"] == [8]
    assert len(read) == 3


def test_what_keeps_a_view_from_the_newest_epoch_is_told(state: Path) -> None:
    manifest = ManifestStore(state).latest()
    assert manifest is not None
    failure = {"count": 5, "reason": "1 / 0", "failed_at_ms": 0, "retry_at_ms": 0}
    told = [{"name": "v2", "reason": "waits for v"}, {"name": "f", "reason": "not due: at noon"}]
    changed = replace(
        manifest.state,
        paused=frozenset(),
        behind={"v": 1, "v2": 1, "f": 2},
        failures={"v": {**failure, "is_suspended": True}},
        gated=frozenset({"s"}),
        report={"held": told},
    )
    ManifestStore(state).commit(replace(manifest, epoch=3, state=changed))
    found = {e.name: (e.state, e.state_reason, e.epoch) for e in read_status(state).relations}
    assert found["v"] == (
        "suspended",
        "it failed; laminar_system.materialized_views says more",
        1,
    )
    assert found["v2"] == ("held", "waits for v", 1)
    assert found["f"] == ("scheduled", "not due: at noon", 2)
    assert found["s"][0] == "gated"
    assert found["t"] == ("running", None, 3)


def test_status_loads_no_spark(state: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from laminar.runtime.introspection import status as module
from laminar.runtime.introspection.status import StatusReader, read_status
assert read_status(Path({str(state)!r})).relations[1].behind is True
assert "pyspark" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_nearest_database_is_found(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(state)
    assert find_state(None) == Path()
    monkeypatch.chdir(state.parent)
    with pytest.raises(DatabaseNotFound):
        find_state(None)
    state.rename(state.with_name("state"))
    assert find_state(None) == Path("state")
    assert find_state(state) == state


def test_what_is_not_a_database_is_said_so(state: Path) -> None:
    with pytest.raises(DatabaseNotFound):
        read_status(state / "data")
    with pytest.raises(DatabaseNotFound):
        read_status(state / "nowhere")
    assert not (state / "nowhere").exists()
    next((state / "data").glob("v-*")).unlink()
    with pytest.raises(SegmentMissing):
        read_status(state)
    newest = max((state / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes()[:-5])
    with pytest.raises(ManifestCorrupt):
        read_status(state)


def test_it_reads_well(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["laminar", "status", "--state", str(state)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "epoch 2" in shown
    assert "1 rows wait" in shown
    assert "there is more" in shown
    assert "not known" in shown
    assert "materialized view" in shown


def test_checkpoints_are_listed_without_spark(tmp_path: Path) -> None:
    with pytest.raises(DatabaseNotFound):
        read_checkpoints(tmp_path)
    manifest = Manifest(7, {}, {}, [], {}, EngineState(), "2026-01-01T00:00:00+00:00")
    ManifestStore(tmp_path).commit(manifest)
    assert read_checkpoints(tmp_path) == []
    storage = CheckpointStorage(tmp_path)
    for number in (1, 2):
        draft = DagCheckpointMetadata(number, 0.5, 3, {}, 7, created_at="2026-01-01T00:00:00Z")
        storage.save(draft, manifest, DagCheckpointConfig())
    (storage.folder / f"{1:012d}" / "metadata.json").write_bytes(b"{}")
    first, second = read_checkpoints(tmp_path)
    assert (first.status, first.epoch) == ("damaged", None)
    assert (second.status, second.epoch, second.as_json()["checkpoint_id"]) == ("complete", 7, 2)
