from __future__ import annotations

import json
from pathlib import Path

import pytest

from laminar.connectors.files import Folder
from laminar.errors import SourceReadFailed

from .rows import write


def folder(path: Path, pattern: str = "*.json") -> Folder:
    return Folder("events", path, [pattern])


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def put(path: Path, *files: str) -> None:
    for name in files:
        write(path, name, "{}\n")


def test_files_are_taken_in_the_order_of_their_names(tmp_path: Path) -> None:
    put(tmp_path, "b.json", "a.json", "c.json", "10.json", "9.json")
    put(tmp_path, ".hidden.json", "_tmp.json", "notes.txt")
    (tmp_path / "sub.json").mkdir()
    end = folder(tmp_path).after(None, None)
    assert end is not None
    assert names(folder(tmp_path).between(None, end.as_json())) == [
        "10.json",
        "9.json",
        "a.json",
        "b.json",
        "c.json",
    ]


def test_an_offset_is_json_and_survives_a_restart(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "b.json")
    end = folder(tmp_path).after(None, 1)
    assert end is not None
    kept = json.loads(json.dumps(end.as_json()))
    assert kept == {"last": "a.json", "count": 1}
    further = folder(tmp_path).after(kept, None)
    assert further is not None
    assert names(folder(tmp_path).between(kept, further.as_json())) == ["b.json"]
    assert folder(tmp_path).after(further.as_json(), None) is None


def test_a_batch_is_limited(tmp_path: Path) -> None:
    put(tmp_path, *(f"{number}.json" for number in range(5)))
    here, offset, taken = folder(tmp_path), None, []
    while (end := here.after(offset, 2)) is not None:
        taken.append(names(here.between(offset, end.as_json())))
        offset = end.as_json()
    assert taken == [["0.json", "1.json"], ["2.json", "3.json"], ["4.json"]]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_file_behind_the_offset_is_an_error_that_names_it(
    tmp_path: Path, restarted: bool
) -> None:
    put(tmp_path, "a.json", "c.json")
    here = folder(tmp_path)
    end = here.after(None, None)
    assert end is not None
    here.between(None, end.as_json())
    here.after(end.as_json(), None)
    put(tmp_path, "b.json")
    again = folder(tmp_path) if restarted else here
    for use in (
        lambda: again.after(end.as_json(), None),
        lambda: again.between(None, end.as_json()),
    ):
        with pytest.raises(SourceReadFailed, match=r"b\.json") as error:
            use()
        assert error.value.file == str(tmp_path / "b.json")


def test_a_file_that_vanished_is_an_error_that_names_it(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "b.json", "c.json")
    here = folder(tmp_path)
    end = here.after(None, None)
    assert end is not None
    here.between(None, end.as_json())
    (tmp_path / "b.json").unlink()
    with pytest.raises(SourceReadFailed, match=r'"b\.json" has gone'):
        here.between(None, end.as_json())
    with pytest.raises(SourceReadFailed, match=r"3 files .* 2 are there now"):
        folder(tmp_path).after(end.as_json(), None)


def test_the_last_file_vanishing_is_noticed_after_a_restart(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "c.json")
    (tmp_path / "c.json").rename(tmp_path / "b.json")
    with pytest.raises(SourceReadFailed, match=r'"c\.json" has gone'):
        folder(tmp_path).after({"last": "c.json", "count": 2}, None)


def test_one_file_swapped_for_another_is_noticed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "b.json", "d.json")
    here = folder(tmp_path)
    end = here.after(None, None)
    assert end is not None
    here.between(None, end.as_json())
    (tmp_path / "b.json").rename(tmp_path / "c.json")
    with pytest.raises(SourceReadFailed, match=r'"b\.json" has gone'):
        here.between(None, end.as_json())


def test_one_file_alone_is_a_folder_of_one(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "b.json")
    here = folder(tmp_path / "b.json")
    end = here.after(None, None)
    assert end is not None
    assert here.between(None, end.as_json()) == [tmp_path / "b.json"]
    assert here.after(end.as_json(), None) is None


def test_a_folder_that_vanished_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceReadFailed):
        folder(tmp_path / "gone").after(None, None)


@pytest.mark.parametrize("offset", [3, "a", {"last": 1, "count": 1}, {"last": "a"}, []])
def test_an_offset_of_something_else_is_refused(tmp_path: Path, offset: object) -> None:
    with pytest.raises(SourceReadFailed, match="offset"):
        folder(tmp_path).after(offset, None)  # type: ignore[arg-type]
