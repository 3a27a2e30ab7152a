"""The newest epoch that relations have in common, and when they have none."""

from __future__ import annotations

import pytest

from laminar.errors import NoCommonEpoch
from laminar.runtime.scheduling.view_progress import ViewProgress

PROGRESS = ViewProgress(behind={"slow": 5, "slower": 3}, filled={"new": 4})


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], 9), (["t"], 9), (["t", "slow"], 5), (["slow", "slower", "t"], 3)],
)
def test_the_slowest_says_how_far(names: list[str], expected: int) -> None:
    assert PROGRESS.reach(names, 9) == expected


def test_a_view_that_began_later_cannot_be_read_then() -> None:
    PROGRESS.require(["t", "slow", "new"], 4, ["slow"])
    with pytest.raises(NoCommonEpoch) as caught:
        PROGRESS.require(["t", "new"], 3, ["t", "slow", "slower"], reader="v")
    error = caught.value
    assert (error.younger, error.begins, error.older, error.epoch) == ("new", 4, "slower", 3)
    assert 'for "v"' in error.message
