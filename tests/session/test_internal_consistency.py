"""The example about internal consistency, in small; `make soak-consistency` runs it at length."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import laminar

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "internal_consistency.py"
    spec = importlib.util.spec_from_file_location("internal_consistency", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["internal_consistency"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_no_read_mixes_two_versions(db: laminar.Database, example: ModuleType) -> None:
    reads, problems = example.check(db, [1, 10, 1000])
    assert problems == []
    assert reads >= 3
    assert db.sql("SELECT * FROM total").rows() == [(0,)]


def test_the_checker_notices(example: ModuleType) -> None:
    truth = example.Truth()
    truth.add([(0, 1, 2, 5)])
    right = [("total", None, 0), ("balance", 1, -5), ("balance", 2, 5), ("rows", None, 1)]
    assert truth.problem(right) == ""
    assert "total is 5" in truth.problem([("total", None, 5), *right[1:]])
    swapped = [right[0], ("balance", 1, 5), ("balance", 2, -5), right[3]]
    assert "wrong balances" in truth.problem(swapped)
    assert "no whole number" in truth.problem([*right[:3], ("rows", None, 2)])
    assert "two balances" in truth.problem([*right, ("balance", 1, -5)])
