"""A changed, cut or foreign file of any kind: noticed and told with a code, never misread."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laminar.checkpoint import CheckpointStorage, DagRecoveryManager
from laminar.errors import LaminarError, UnsupportedFormat
from laminar.store import EpochLog, ManifestStore

from .kinds import KINDS, READ, Kind, state

NAMES = [each.name for each in KINDS]
EDGE = 48
"""So many bytes at either end are all tried; of what lies between, every seventh."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model")
    state(root)
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "state"))


def everything(root: Path) -> dict[str, bytes]:
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def offsets(size: int) -> Iterator[int]:
    """Yield places in the header, the data and the footer of a file."""
    yield from range(min(EDGE, size))
    yield from range(EDGE, size - EDGE, 7)
    yield from range(max(EDGE, size - EDGE), size)


def test_every_file_is_of_a_kind_that_is_listed(root: Path) -> None:
    for name in everything(root):
        # Of manifests and pushed rows there are older ones, which are read alike.
        older = re.sub(r"^(manifests/0+)1(\.)", r"\g<1>2\2", name)
        older = re.sub(r"^(pending/.*/0+)[12](-)", r"\g<1>3\2", older)
        assert any(re.fullmatch(each.pattern, older) for each in KINDS), name


def _noticed(kind: Kind, root: Path, whole: Any) -> bool:
    """Whether damage is told with a code; what is read all the same must be what was written."""
    try:
        found = kind.read(root)
    except LaminarError:
        return True
    if kind.is_advice and found is None:
        return True
    assert found == whole, kind.name
    return False


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_changed_byte_anywhere_is_noticed(root: Path, kind: Kind) -> None:
    path, whole = kind.path(root), kind.read(root)
    data = path.read_bytes()
    for at in offsets(len(data)):
        for mask in (0x01, 0x80):
            # Written in place: a hard link elsewhere sees it, too.
            path.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
            assert _noticed(kind, root, whole), f"byte {at} of {len(data)}"
    path.write_bytes(data)
    assert kind.read(root) == whole


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_file_that_ends_early_is_noticed(root: Path, kind: Kind) -> None:
    path, whole = kind.path(root), kind.read(root)
    data = path.read_bytes()
    for size in offsets(len(data)):
        path.write_bytes(data[:size])
        if kind.name == "log":
            # A line that was cut short by a crash says nothing: its epoch had not begun.
            assert EpochLog(root, read_only=True).open_after(0) == whole[: data[:size].count(b"\n")]
        else:
            assert _noticed(kind, root, whole), f"{size} of {len(data)} bytes"


FOREIGN = [each for each in KINDS if each.other is not None]


@pytest.mark.parametrize("version", [0, 99])
@pytest.mark.parametrize("kind", FOREIGN, ids=[each.name for each in FOREIGN])
def test_another_format_is_refused(root: Path, kind: Kind, version: int) -> None:
    assert kind.other is not None
    kind.other(kind.path(root), version)
    if kind.is_advice:
        assert kind.read(root) is not None  # it only makes a message better
        return
    with pytest.raises(UnsupportedFormat, match=f"LMR-6002.*version {version}"):
        kind.read(root)


LIVE = [each for each in KINDS if each.name not in ("lock", "spilled rows")]


VERIFIED = (
    "manifest",
    "segment",
    "log",
    "pushed rows",
    "checkpoint",
    "checkpoint's manifest",
)
"""What opening looks at; the rest is verified when it is used."""


@pytest.mark.parametrize("place", ["header", "data", "footer", "empty", "missing"])
@pytest.mark.parametrize("kind", LIVE, ids=[each.name for each in LIVE])
def test_opening_keeps_the_last_good_state(root: Path, kind: Kind, place: str) -> None:
    path = kind.path(root)
    data = path.read_bytes()
    at = {"header": 0, "data": len(data) // 2, "footer": len(data) - 1}.get(place, 0)
    if place == "missing":
        path.unlink()
    else:
        flipped = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        path.write_bytes(b"" if place == "empty" else flipped)
    before = everything(root)
    try:
        found = DagRecoveryManager(root).recover()
    except LaminarError:
        assert everything(root) == before, "nothing may be touched"
        return
    # Whatever was damaged: the newest epoch is there, or the log leads to it with the same rows.
    newest = ManifestStore(root).latest()
    assert newest is not None
    log = EpochLog(root)
    assert newest.epoch + len(log.open_after(newest.epoch)) >= READ
    log.close()
    CheckpointStorage(root).sweep()  # as opening does next
    again = DagRecoveryManager(root).recover()
    assert again.metrics.epoch == found.metrics.epoch
    if kind.name in VERIFIED and place not in ("missing", "empty"):
        told = " ".join(map(str, found.metrics.damaged))
        assert str(path) in told or str(path.parent) in told


def test_pushed_rows_are_taken_from_a_checkpoint_that_copied_them(root: Path) -> None:
    (path,) = (root / "pending").glob(f"*/{3:012d}-*")
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    found = DagRecoveryManager(root).recover().metrics
    assert [Path(name).name for name in found.healed] == [path.name]
    assert path.read_bytes() == data
    assert found.set_aside is not None
    assert list(Path(found.set_aside).rglob(path.name))


def _first(root: Path, name: str, change: Callable[[Path], None]) -> Any:
    kind = next(each for each in KINDS if each.name == name)
    change(kind.path(root))
    return kind.read(root)


def test_older_formats_are_read(root: Path) -> None:
    def cursor(path: Path) -> None:
        path.write_text(
            '{"consumer": "k", "epoch": 2, "about": {"a": "b"}, "sum": "crc32:efefb3e4"}'
        )

    assert _first(root, "cursor", cursor)[0].about == {"a": "b"}

    def spilled(path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"LMRSPILL2", b"LMRSPILL1", 1))

    assert _first(root, "spilled rows", spilled) == []  # their source gives them again
