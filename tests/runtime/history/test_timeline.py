"""The committed epochs, and the one that readers see."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from laminar.errors import EpochNotFound, NotSupported, StoreUnwritable
from laminar.model.state import EngineState
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.history.timeline import Timeline

from ..parts import catalog, manifest

TABLE = "CREATE TABLE t (a INT);"


def commit(timeline: Timeline, epoch: int, script: str = TABLE, **state: Any) -> None:
    definitions = to_json(catalog(script).in_order())
    timeline.commit(
        epoch,
        traces={},
        offsets={},
        catalog=json.loads(json.dumps(definitions)),
        state=EngineState(**state),
        watermarks={},
    )


def test_definitions_may_change_while_the_data_stays(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path)
    numbers = []
    for epoch in (0, 0, 1, 1, 1, 2):
        commit(timeline, epoch)
        numbers.append((timeline.epoch, timeline.manifest.revision))
    assert numbers == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert [(each.epoch, each.revision) for each in timeline.kept()] == [(0, 1), (1, 2), (2, 0)]
    again = Timeline(tmp_path)
    assert again.manifest == timeline.manifest
    assert again.get(1).revision == 2


def test_another_process_is_followed(tmp_path: Path) -> None:
    writer = Timeline(tmp_path)
    reader = Timeline(tmp_path, read_only=True)
    assert not reader.refresh()
    commit(writer, 0)
    assert reader.refresh()
    assert not reader.refresh()
    commit(writer, 0, settings={"a": "b"})  # a revision is something new, too
    assert reader.refresh()
    assert reader.manifest.state.settings == {"a": "b"}
    for epoch in (1, 2, 3):
        commit(writer, epoch)
    assert reader.refresh()
    assert reader.epoch == 3


@pytest.mark.parametrize("pinned", [frozenset(), frozenset({1})])
def test_past_epochs_are_read_again_or_are_gone(tmp_path: Path, pinned: frozenset[int]) -> None:
    timeline = Timeline(tmp_path)
    timeline.retained = 2
    for epoch in range(1, 5):
        timeline.pinned = pinned
        commit(timeline, epoch, settings={"at": str(epoch)})
    assert timeline.epochs() == ((1, 3, 4) if pinned else (3, 4))
    for epoch in timeline.epochs():
        assert timeline.get(epoch).state.settings == {"at": str(epoch)}
    with pytest.raises(EpochNotFound):
        timeline.get(2)


def test_what_is_remembered_is_what_is_on_disk(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path)
    timeline.pinned = frozenset(range(20))
    for epoch in range(1, 13):
        commit(timeline, epoch, settings={"at": str(epoch)})
    fresh = Timeline(tmp_path)
    assert [timeline.get(each) for each in range(1, 13)] == [fresh.get(e) for e in range(1, 13)]
    timeline.adopt(manifest(12))
    assert timeline.epoch == 12
    assert timeline.get(11) == fresh.get(11)


VIEW = f"{TABLE} CREATE MATERIALIZED VIEW v AS SELECT a FROM t;"


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (VIEW, True),
        (f"{VIEW} CREATE TABLE u (a INT);", True),  # somebody else
        (VIEW.replace("VIEW v", "VIEW v WITH (schedule = '1h')"), True),  # how, not what
        (VIEW.replace("SELECT a", "SELECT a + 1 AS a"), False),
        (VIEW.replace("VIEW v", "VIEW v WITH (refresh_policy = full)"), False),
        (TABLE, False),
    ],
)
def test_an_older_epoch_means_what_was_defined_then(tmp_path: Path, now: str, same: bool) -> None:
    timeline = Timeline(tmp_path)
    commit(timeline, 1, VIEW)
    commit(timeline, 2, now)
    assert timeline.at(1, ["t"]).epoch == 1
    if same:
        assert timeline.at(1, ["v", "t"]).epoch == 1
    else:
        with pytest.raises(NotSupported, match='"v" as of epoch 1'):
            timeline.at(1, ["t", "v"])


def test_what_cannot_be_removed_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = Timeline(tmp_path)

    def refuse(*_: object) -> None:
        raise StoreUnwritable("disk", "it is full")

    monkeypatch.setattr(timeline.store, "prune", refuse)
    with caplog.at_level(logging.WARNING, "laminar.store"):
        commit(timeline, 1)
    assert timeline.epoch == 1
    assert "old epochs cannot be removed" in caplog.text


def test_a_reader_passes_by_what_the_writer_lets_go_of_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Timeline(tmp_path)
    for epoch in range(4):
        commit(writer, epoch)
    reader = Timeline(tmp_path, read_only=True)
    seen = reader.store.epochs()
    monkeypatch.setattr(reader.store, "epochs", lambda: seen)
    writer.store.prune(2)
    assert [each.epoch for each in reader.kept()] == [2, 3]
    # And one that goes between being listed and being read, each time it is looked for.
    read = type(reader.store)._read

    def gone(store: Any, version: tuple[int, int]) -> Any:
        if version[0] == 2:
            raise FileNotFoundError(version)
        return read(store, version)

    monkeypatch.setattr(type(reader.store), "_read", gone)
    assert [each.epoch for each in reader.kept()] == [3]


def test_a_reader_that_comes_while_a_revision_is_replaced_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Timeline(tmp_path)
    commit(writer, 1)
    read, tries = type(writer.store)._read, iter([FileNotFoundError("replaced")])

    def gone_once(store: Any, version: tuple[int, int]) -> Any:
        for error in tries:
            raise error
        return read(store, version)

    monkeypatch.setattr(type(writer.store), "_read", gone_once)
    assert Timeline(tmp_path, read_only=True).epoch == 1
