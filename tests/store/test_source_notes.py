"""Notes about sources: told once, replaced whole, and nothing if they cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.errors import StoreUnwritable
from laminar.store import durable_files
from laminar.store.source_notes import NOTES, SourceNotes

TOLD = {"s": {"state": "away", "reason": "gone", "attempts": 2, "next_try_ms": 5}}


def test_what_is_said_is_read_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = SourceNotes(tmp_path)
    notes.write({})
    assert list(tmp_path.iterdir()) == []  # all is well, and nobody ever said otherwise
    notes.write(TOLD)
    assert SourceNotes(tmp_path).read() == TOLD
    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "replace_atomic", lambda *_, **__: pytest.fail("again"))
        notes.write(TOLD)
    SourceNotes(tmp_path).write({})
    assert SourceNotes(tmp_path).read() == {}


def test_a_note_that_cannot_be_written_or_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = SourceNotes(tmp_path)

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise StoreUnwritable(str(path), "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "replace_atomic", refuse)
        notes.write(TOLD)
    assert notes.read() == {}
    notes.write(TOLD)
    path = tmp_path / NOTES
    path.write_bytes(path.read_bytes()[:-3])
    assert SourceNotes(tmp_path).read() == {}
    path.write_bytes(durable_files.seal({"format": 2, "sources": {}}))
    assert SourceNotes(tmp_path).read() == {}
