"""A crash between any two writes leaves the last committed epoch, and debris that is swept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Trace
from laminar.store import ManifestStore, PendingLog, SegmentStore, compact, durable_files, sweep
from laminar.testing.crashes import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, __weight BIGINT"

POINTS = [
    "pending.before_write",
    "pending.after_write",
    "pending.before_rename",
    "pending.after_rename",
    "segment.before_write",
    "segment.after_write",
    "segment.before_write#2",
    "segment.after_write#2",
    "segment.after_rename",
    "compaction.before_write",
    "segment.before_write#3",
    "segment.after_write#3",
    "manifest.before_write",
    "manifest.after_write",
    "manifest.before_rename",
    "manifest.after_rename",
    "manifest.after_sync",
]
"""Places an epoch passes, in order: push, small delta, large delta, compaction, commit."""

BETWEEN = {
    "pending.after_sync",
    "segment.before_sync",
    "segment.after_sync",
    "segment.before_rename",
    "segment.before_remove",
    "segment.after_remove",
    "compaction.after_write",
}
"""Other places, where files are as they are at one of those; `make soak` crashes there, too."""

COMMITTED = ("manifest.after_rename", "manifest.after_sync")


def script(crash_at: str | None, seen: list[str]) -> Callable[[str], None]:
    def reach(point: str) -> None:
        times = sum(one.split("#")[0] == point for one in seen) + 1
        seen.append(point if times == 1 else f"{point}#{times}")
        if seen[-1] == crash_at:
            raise Crash(point)

    return reach


def step(root: Path, spark: SparkSession) -> Manifest:
    """Push rows and run one epoch over two relations, one of them compacted."""
    manifests, segments = ManifestStore(root), SegmentStore(root, spark)
    last = manifests.latest()
    epoch = last.epoch + 1 if last else 1
    traces = dict(last.traces) if last else {"small": Trace(SCHEMA), "large": Trace(SCHEMA)}
    table = pa.table({"id": [epoch, -epoch]})
    seq = PendingLog(root).append("t", table)
    deltas = {
        "small": segments.write_arrow("small", epoch, table),
        "large": segments.write_frame("large", epoch, spark.range(epoch, epoch + 4)),
    }
    for name, delta in deltas.items():
        assert delta is not None
        traces[name] = traces[name].append(delta)
    olds = traces["small"].segments
    traces["small"] = traces["small"].replace(olds, compact(segments, "small", epoch, SCHEMA, olds))
    manifest = Manifest(epoch, traces, {"t": seq}, [], {}, EngineState(), "2026-01-01T00:00:00Z")
    manifests.commit(manifest)
    return manifest


def content(root: Path, spark: SparkSession, manifest: Manifest) -> dict[str, list[int]]:
    store = SegmentStore(root, spark)
    for trace in manifest.traces.values():
        for segment in trace.segments:
            store.verify(segment)
    return {
        name: sorted(row[0] for row in store.frame(SCHEMA, trace.segments).collect())
        for name, trace in manifest.traces.items()
    }


def all_files(root: Path) -> set[str]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix() for path in found}


def lawful(root: Path) -> set[str]:
    """Everything that may be there: manifests, what they name, and pending batches."""
    manifests = ManifestStore(root)
    named = {f"manifests/{epoch:012d}.json" for epoch in manifests.epochs()}
    waiting = {
        batch.path.relative_to(root.resolve()).as_posix()
        for batch in PendingLog(root).after("t", 0)
    }
    return named | waiting | manifests.live_files()


def test_the_script_knows_every_point(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(durable_files, "failpoint", script(None, seen))
    step(tmp_path, spark)
    assert set(POINTS) <= set(seen)
    assert {each.split("#")[0] for each in [*POINTS, *BETWEEN]} == {
        each.split("#")[0] for each in seen
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_leaves_the_last_epoch_and_nothing_that_counts(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    before = step(tmp_path, spark)
    expected = content(tmp_path, spark, before)

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", script(point, []))
        with pytest.raises(Crash):
            step(tmp_path, spark)

    # With its name the manifest is committed, whatever its writer lived to see.
    committed = point in COMMITTED
    found = ManifestStore(tmp_path).latest()
    assert found is not None
    assert found.epoch == (2 if committed else 1)
    if not committed:
        assert found == before
        assert content(tmp_path, spark, found) == expected

    keep = lawful(tmp_path)
    dead = sweep(tmp_path, ManifestStore(tmp_path).live_files())
    assert all_files(tmp_path) == keep
    clean = {"pending.before_write", "segment.before_write", "manifest.after_sync"}
    assert len(dead) > 0 or point in clean
    assert sweep(tmp_path, ManifestStore(tmp_path).live_files()) == []

    again = step(tmp_path, spark)
    assert again.epoch == found.epoch + 1
    assert content(tmp_path, spark, again)["small"] == sorted(
        value for epoch in range(1, again.epoch + 1) for value in (epoch, -epoch)
    )


@pytest.mark.parametrize("point", [point for point in POINTS if point.startswith("manifest")])
def test_a_killed_process_commits_wholly_or_not_at_all(tmp_path: Path, point: str) -> None:
    program = f"""
import os, pathlib
from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.store import ManifestStore, durable_files
store = ManifestStore(pathlib.Path({str(tmp_path)!r}))
store.commit(Manifest(1, {{}}, {{}}, [], {{}}, EngineState(), ""))
durable_files.failpoint = lambda at: os._exit(9) if at == {point!r} else None
store.commit(Manifest(2, {{}}, {{}}, [], {{}}, EngineState(), ""))
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, env={**os.environ})
    assert done.returncode == 9
    latest = ManifestStore(tmp_path).latest()
    assert latest is not None
    assert latest.epoch == (2 if point in COMMITTED else 1)
    sweep(tmp_path, [])
    assert all_files(tmp_path) == {f"manifests/{e:012d}.json" for e in range(1, latest.epoch + 1)}
