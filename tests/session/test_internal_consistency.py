"""The example about internal consistency, in small; `make soak-consistency` runs it at length."""

from __future__ import annotations

import importlib.util
import random
import sys
from itertools import islice
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


@pytest.mark.long
def test_no_read_mixes_two_versions(db: laminar.Database, example: ModuleType) -> None:
    found = example.check(db, [1, 10, 1000])
    assert found.problems == []
    assert found.reads >= found.epochs == 3
    assert found.beside > 0
    assert db.sql("SELECT * FROM total").rows() == [(0,)]


def test_the_checker_notices(example: ModuleType) -> None:
    truth = example.Truth()
    assert truth.add([(0, 1, 2, 5)]) == 1
    right = [("total", None, 0), ("balance", 1, -5), ("balance", 2, 5), ("rows", None, 1)]
    assert truth.problem(right, 1) == ""
    assert "total is 5" in truth.problem([("total", None, 5), *right[1:]], 1)
    swapped = [right[0], ("balance", 1, 5), ("balance", 2, -5), right[3]]
    assert "wrong balances" in truth.problem(swapped, 1)
    assert "2 transactions are not the 1" in truth.problem([*right[:3], ("rows", None, 2)], 1)
    assert "not the 0 of epoch 0" in truth.problem(right, 0)
    assert "two balances" in truth.problem([*right, ("balance", 1, -5)], 1)


def test_sizes_of_epochs(example: ModuleType) -> None:
    sizes = list(islice(example.sizes_up_to(10_000, random.Random(1)), 210))
    assert set(range(1, 101)) | {10_000} <= set(sizes)
    assert len(set(sizes)) > 150
    assert max(sizes) == 10_000
