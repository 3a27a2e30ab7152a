"""Retention never removes what an epoch, a checkpoint, a consumer or a held view still needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.checkpoint import CheckpointStorage, DagCheckpointConfig, DagCheckpointMetadata
from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Segment, Trace
from laminar.runtime.history.timeline import Timeline
from laminar.runtime.output.changelog import DagChangelogPropagator, EpochNeed
from laminar.store import durable_files

RETAINED, WITHIN, CHECKPOINTS = 3, 8, 2


@dataclass(slots=True)
class World:
    """A store without rows: its files say their own names."""

    root: Path
    timeline: Timeline = field(init=False)
    storage: CheckpointStorage = field(init=False)
    taken: dict[str, int] = field(default_factory=dict)
    """Consumer -> the last epoch it has taken; a name with `?` may lose its claim."""
    held: dict[str, int] = field(default_factory=dict)
    saving: Manifest | None = None
    made: int = 0

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.timeline = Timeline(self.root)
        self.timeline.retained = RETAINED
        self.storage = CheckpointStorage(self.root)
        self.storage.sweep()

    @property
    def epoch(self) -> int:
        return self.timeline.manifest.epoch

    @property
    def trace(self) -> Trace:
        return self.timeline.manifest.traces.get("t", Trace("n BIGINT"))

    def segment(self, lo: int, hi: int) -> Segment:
        self.made += 1
        name = f"data/t/{self.made:06d}.parquet"
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        return Segment((name,), lo, hi, 1, 1, True, (durable_files.checksum(path),))

    def pinned(self, epoch: int) -> frozenset[int]:
        """What the engine asks to be kept, worked out as it does."""
        needs = [
            EpochNeed(name.strip("?"), taken, within=WITHIN if "?" in name else None)
            for name, taken in self.taken.items()
        ]
        scheduler: Any = SimpleNamespace(since=self.held)
        unused: Any = None
        log = DagChangelogPropagator(self.timeline, scheduler, unused)
        log.needs.append(lambda: needs)
        own = set() if self.saving is None else {self.saving.epoch}
        return log.pinned(epoch) | own

    def commit(self, epoch: int, trace: Trace) -> None:
        self.timeline.pinned = self.pinned(epoch)
        traces: Mapping[str, Trace] = {"t": trace}
        self.timeline.commit(
            epoch, traces=traces, offsets={}, catalog=[], state=EngineState(), watermarks={}
        )

    # What may happen

    def step(self) -> None:
        self.commit(self.epoch + 1, self.trace.append(self.segment(self.epoch + 1, self.epoch + 1)))

    def compact(self) -> None:
        olds = self.trace.segments[-4:]
        if len(olds) > 1:
            merged = self.segment(olds[0].lo, olds[-1].hi)
            self.commit(self.epoch, self.trace.replace(olds, merged))

    def follow(self) -> None:
        self.taken.setdefault("a", self.epoch)
        self.taken.setdefault("b?", self.epoch)

    def take(self) -> None:
        for name, taken in self.taken.items():
            self.taken[name] = min(taken + 2, self.epoch)

    def leave(self) -> None:
        self.taken.pop("a", None)

    def hold(self) -> None:
        self.held.setdefault("v", self.epoch)

    def let_go(self) -> None:
        self.held.clear()

    def begin_checkpoint(self) -> None:
        if self.saving is None and self.epoch:
            self.saving = self.timeline.manifest

    def end_checkpoint(self) -> None:
        if self.saving is not None:
            # As the engine does: a newer revision of the epoch takes the place of the older one.
            manifest = self.timeline.get(self.saving.epoch)
            draft = DagCheckpointMetadata(self.storage.next_id(), 0.0, 0, {}, manifest.epoch)
            self.storage.save(draft, manifest, DagCheckpointConfig())
            self.storage.retain(CHECKPOINTS)
            self.saving = None

    def restart(self) -> None:
        self.saving = None
        self.open()

    # What must hold

    def check(self) -> None:
        newest = self.epoch
        wanted = set(range(max(1, newest - RETAINED + 1), newest + 1)) | set(self.held.values())
        for name, taken in self.taken.items():
            if "?" not in name or newest - taken <= WITHIN:
                wanted |= set(range(taken, newest + 1))
        wanted |= {self.saving.epoch} if self.saving is not None else set()
        for epoch in wanted - {0}:
            for name in self.timeline.get(epoch).files:
                assert (self.root / name).exists(), f"epoch {epoch} needs {name}"
        for each in self.storage.complete():
            manifest = self.storage.manifest(each.checkpoint_id)
            assert self.storage.faults(each, manifest) == {}
        kept = {name for each in self.timeline.kept() for name in each.files}
        found = {
            p.relative_to(self.root).as_posix() for p in (self.root / "data").rglob("*.parquet")
        }
        assert found <= kept | set(self.trace.files), "what nobody needs is gone"


ACTS: list[Callable[[World], None]] = [
    World.step,
    World.step,
    World.step,
    World.compact,
    World.follow,
    World.take,
    World.leave,
    World.hold,
    World.let_go,
    World.begin_checkpoint,
    World.end_checkpoint,
    World.restart,
]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(ACTS), min_size=10, max_size=45))
def test_nothing_that_is_needed_goes(
    tmp_path_factory: pytest.TempPathFactory, acts: list[Callable[[World], None]]
) -> None:
    world = World(tmp_path_factory.mktemp("needed"))
    world.step()
    for act in acts:
        act(world)
        world.check()


def test_what_cannot_be_removed_does_not_undo_a_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    for _ in range(RETAINED):
        world.step()
    damaged = tmp_path / "manifests" / f"{1:012d}.json"
    damaged.write_bytes(b"{}")
    with caplog.at_level(logging.WARNING, "laminar.store"):
        world.step()
        world.step()
    assert world.epoch == RETAINED + 2
    assert "LMR-6001" in caplog.text
    assert damaged.exists()
    for epoch in range(RETAINED + 1, RETAINED + 3):
        assert all((tmp_path / name).exists() for name in world.timeline.get(epoch).files)
