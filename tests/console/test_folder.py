"""The folder that a console shows, while a connector takes its time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import laminar
from laminar.console import folder as folders
from laminar.console.folder import FRESH_SECONDS, Folder
from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.runtime.catalog.definitions import TableDefinition, to_json
from laminar.store import ManifestStore


class Slow:
    """A source that answers when it is told to."""

    append_only = True

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def latest_offset(self, _start: Any) -> Any:
        self.asked.set()
        assert self.may_answer.wait(60)
        return 1

    def read(self, *_: Any) -> Any:
        raise AssertionError("nobody reads")


@pytest.fixture
def source() -> Slow:
    made = Slow()
    laminar.register_source("slow", lambda _spec: made)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    commit(tmp_path, 1)
    return tmp_path


@pytest.fixture
def others() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def commit(root: Path, epoch: int) -> None:
    table = TableDefinition("s", (("n", "bigint", True),), is_source=True, connector="slow")
    moment = "2026-01-01T00:00:00+00:00"
    catalog = to_json({"s": table})
    ManifestStore(root).commit(Manifest(epoch, {}, {}, catalog, {}, EngineState(), moment))


class Seconds:
    at = 0.0

    def __call__(self) -> float:
        return self.at


def test_whoever_comes_while_a_connector_is_asked_gets_what_was_known(
    root: Path, source: Slow, others: ThreadPoolExecutor
) -> None:
    clock = Seconds()
    folder = Folder(root, clock)
    source.may_answer.set()
    assert folder.snapshot().manifest.epoch == 1
    source.may_answer.clear()
    source.asked.clear()
    commit(root, 2)
    clock.at += folders.PATIENCE_SECONDS + FRESH_SECONDS
    first = others.submit(folder.snapshot)
    assert source.asked.wait(60)
    assert not folder._lock.locked()  # nobody's code runs under it
    assert others.submit(folder.snapshot).result(60).manifest.epoch == 1
    source.may_answer.set()
    assert first.result(60).manifest.epoch == 2
    assert folder.snapshot().status.relations[0].behind


def test_who_finds_nothing_known_waits_but_not_for_ever(
    root: Path, source: Slow, others: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(root)
    first = others.submit(folder.snapshot)
    assert source.asked.wait(60)
    monkeypatch.setattr(folders, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(laminar.ConnectorError, match='"s"') as found:
        folder.snapshot()
    assert "has not answered" in found.value.detail
    source.may_answer.set()
    assert first.result(60).manifest.epoch == 1
    assert folder.snapshot() is first.result(60)


def test_an_error_is_told_to_those_who_wait_and_not_kept(
    root: Path, source: Slow, others: ThreadPoolExecutor
) -> None:
    folder = Folder(root)
    first = others.submit(folder.snapshot)
    assert source.asked.wait(60)
    second = others.submit(folder.snapshot)
    (manifest,) = (root / "manifests").iterdir()
    content = manifest.read_bytes()
    manifest.unlink()
    source.may_answer.set()
    for each in (first, second):
        assert isinstance(each.exception(60), laminar.DatabaseNotFound)
    manifest.write_bytes(content)
    assert folder.snapshot().manifest.epoch == 1
