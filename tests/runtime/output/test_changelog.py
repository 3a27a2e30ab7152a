"""The log of changes: what consumers still need, and what they have not taken."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from laminar.errors import EpochNotFound
from laminar.runtime.output.changelog import EpochNeed

from .told import Told


@pytest.mark.parametrize(
    ("behind", "needs", "pinned"),
    [
        ({}, [], set()),
        ({"v": 2}, [], {2}),  # whoever starts to follow it starts there
        ({}, [EpochNeed("t", 5)], {5, 6, 7}),
        ({}, [EpochNeed("t", 7)], {7}),
        ({}, [EpochNeed("t", 3, is_away=True)], {3, 4}),
        ({"v": 2}, [EpochNeed("v", 3)], {2, 3, 4}),  # nothing has changed in it since
        ({}, [EpochNeed("t", 2, within=5)], {2, 3, 4, 5, 6, 7}),
        ({}, [EpochNeed("t", 2, within=4)], set()),  # too far behind: it loses its claim
        ({}, [EpochNeed("t", 6), EpochNeed("v", 4, is_away=True)], {4, 5, 6, 7}),
    ],
)
def test_epochs_that_consumers_need(
    tmp_path: Path, behind: dict[str, int], needs: list[EpochNeed], pinned: set[int]
) -> None:
    told = Told(tmp_path)
    told.step(6, **behind)
    told.log.needs += [lambda: needs[:1], lambda: needs[1:]]
    assert told.log.pinned(7) == pinned


def test_epochs_that_a_consumer_has_not_taken(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for _ in range(4):
        told.step()
    told.step(v=3)
    snapshot = told.snapshot()
    assert told.log.reach(snapshot, "t") == 5
    assert told.log.reach(snapshot, "v") == 3
    assert told.log.epochs(snapshot, "t", 2) == [3, 4, 5]
    assert told.log.epochs(snapshot, "v", 2) == [3]
    assert told.log.epochs(snapshot, "v", 3) == []
    assert told.log.epochs(snapshot, "v", 9) == []  # ahead of epochs that are being replayed


def test_what_follows_an_epoch_that_is_gone_cannot_be_told(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.timeline.retained = 2
    for _ in range(4):
        told.step()
    assert told.log.epochs(told.snapshot(), "t", 3) == [4]
    with pytest.raises(EpochNotFound):
        told.log.epochs(told.snapshot(), "t", 1)


def test_whoever_waits_is_woken_and_never_waits_for_what_came_already(tmp_path: Path) -> None:
    told = Told(tmp_path)
    seen = told.log.moves
    told.log.notify()
    late = threading.Thread(target=told.log.wait, args=(seen, 60), daemon=True)
    late.start()
    late.join(20)
    assert not late.is_alive()
    waiter = threading.Thread(target=told.log.wait, args=(told.log.moves, 60), daemon=True)
    waiter.start()
    for _ in range(200):  # it may not wait yet
        told.log.live(True)
        waiter.join(0.1)
        if not waiter.is_alive():
            break
    assert not waiter.is_alive()
    assert told.log.is_live
