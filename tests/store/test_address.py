"""A database is in a folder of this machine, wherever the process goes meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import laminar
from laminar.errors import UnsupportedAddress
from laminar.store.address import local_path


@pytest.mark.parametrize(
    "address",
    ["s3://bucket/x", "s3a://b/x", "hdfs://n/x", "http://h/x", "gs:/x", Path("s3://bucket/x")],
)
def test_an_address_of_something_else_is_refused_and_makes_no_folder(
    address: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedAddress, match="LMR-5005"):
        laminar.connect(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "file://localhost{}"])
def test_a_file_address_is_a_path(form: str, tmp_path: Path) -> None:
    assert local_path(form.format(tmp_path / "a%20b")) == tmp_path / "a b"


def test_a_path_of_a_file_address_is_that_address(tmp_path: Path) -> None:
    assert local_path(Path(f"file://{tmp_path}")) == tmp_path


def test_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedAddress, match="another machine"):
        local_path(f"file://server{tmp_path}")


def test_a_path_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = local_path("state")
    os.chdir("/")
    assert found == tmp_path / "state"
    assert local_path("/a b:/c") == Path("/a b:/c")
