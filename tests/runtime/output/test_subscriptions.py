"""Consumers that follow a relation at their own pace: nothing is lost, nothing comes twice."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.errors import EpochNotFound, InvalidSetting, ReadOnlyDatabase, SubscriptionEnded
from laminar.runtime.catalog.definitions import ViewDefinition
from laminar.runtime.history.differences import ChangeFrame
from laminar.runtime.output.changelog import EpochNeed
from laminar.runtime.output.subscriptions import Subscription, Subscriptions

from .told import Told


def shown(found: ChangeFrame, _epoch: int) -> Any:
    return found.frame


def open_one(subscriptions: Subscriptions, **given: Any) -> Subscription[Any]:
    return subscriptions.subscribe("v", given.pop("from_epoch", None), shown, **given)


def test_all_rows_first_and_then_what_each_epoch_changed(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.step()
    one = open_one(told.subscriptions())
    assert list(one) == [(1, "v at 1")]
    assert list(one) == []
    told.step()
    told.step()
    assert list(one) == [(2, "v 1 to 2"), (3, "v 2 to 3")]
    assert one.taken == 3


def test_from_an_epoch_on(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for _ in range(3):
        told.step()
    subscriptions = told.subscriptions()
    assert list(open_one(subscriptions, from_epoch=1)) == [(2, "v 1 to 2"), (3, "v 2 to 3")]
    with pytest.raises(EpochNotFound):
        open_one(subscriptions, from_epoch=9)
    told.timeline.retained = 1
    told.step()
    told.step()
    with pytest.raises(EpochNotFound):
        open_one(subscriptions, from_epoch=1)


def test_epochs_that_changed_nothing_are_passed_over(tmp_path: Path) -> None:
    told = Told(tmp_path, quiet={0, 2})
    one = open_one(told.subscriptions())
    for _ in range(3):
        told.step()
    assert list(one) == [(1, "v 0 to 1"), (3, "v 2 to 3")]


def test_what_was_given_out_counts_when_the_next_one_is_asked_for(tmp_path: Path) -> None:
    told = Told(tmp_path)
    one = open_one(told.subscriptions())
    told.step()
    assert next(one) == (0, "v at 0")
    assert one.taken == 0
    assert next(one) == (1, "v 0 to 1")
    assert one.taken == 0  # the one before it
    one.ack()
    assert one.taken == 1


def test_a_view_that_is_held_has_nothing_new(tmp_path: Path) -> None:
    told = Told(tmp_path)
    one = open_one(told.subscriptions())
    list(one)
    told.step(v=0)
    told.step(v=0)
    assert list(one) == []
    told.step()
    assert list(one) == [(1, "v 0 to 1"), (2, "v 1 to 2"), (3, "v 2 to 3")]


def test_one_with_a_name_goes_on_after_a_restart(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.step()
    one = open_one(told.subscriptions(), name="mine")
    assert next(one) == (1, "v at 1")
    told.step()
    assert next(one) == (2, "v 1 to 2")  # given out, not taken
    again = Told(tmp_path).subscriptions()
    assert [(each.consumer, each.epoch) for each in again.named()] == [("mine", 1)]
    assert list(open_one(again, name="mine")) == [(2, "v 1 to 2")]
    assert list(open_one(again, name="mine", from_epoch=1)) == [(2, "v 1 to 2")]
    with pytest.raises(InvalidSetting):
        again.subscribe("t", None, shown, name="mine")
    assert again.forget("mine")
    assert not again.forget("mine")
    assert list(open_one(again, name="mine")) == [(2, "v at 2")]


def test_a_relation_that_is_defined_anew_ends_it(tmp_path: Path) -> None:
    told = Told(tmp_path)
    subscriptions = told.subscriptions()
    one, named = open_one(subscriptions), open_one(subscriptions, name="mine")
    list(one)
    list(named)
    catalog = told.parts.catalog
    anew = ViewDefinition("v", "SELECT a + 1 AS a FROM t")
    catalog.replace_view(anew, catalog.compile(anew))
    told.step()
    with pytest.raises(SubscriptionEnded):
        next(one)
    with pytest.raises(SubscriptionEnded):
        open_one(subscriptions, name="mine")
    catalog.remove("v")
    told.step()
    with pytest.raises(SubscriptionEnded):
        next(one)


def test_a_reader_has_no_names_but_sees_those_there_are(tmp_path: Path) -> None:
    told = Told(tmp_path)
    list(open_one(told.subscriptions(), name="mine"))
    reader = told.subscriptions(poll_seconds=0.01)
    assert not reader.is_writer
    assert [each.consumer for each in reader.named()] == ["mine"]
    with pytest.raises(ReadOnlyDatabase):
        open_one(reader, name="other")


def test_what_is_open_is_kept_and_stored(tmp_path: Path) -> None:
    told = Told(tmp_path)
    stored: list[bool] = []

    def store_followed() -> bool:
        stored.append(True)
        return len(stored) > 1  # somebody was busy the first time

    subscriptions = told.subscriptions()
    subscriptions.store_followed = store_followed
    one = open_one(subscriptions)
    assert list(subscriptions.needs()) == [EpochNeed("v", 0, within=1000)]
    assert subscriptions.tapped() == set()  # one look at it needs no stored rows
    for _ in range(3):
        told.step()
    assert len(list(one)) == 4
    assert subscriptions.tapped() == {"v"}
    assert len(stored) == 2
    named = open_one(subscriptions, name="mine")
    list(named)
    assert {each.taken for each in subscriptions.needs()} == {3}
    one.close()
    assert list(one) == []
    assert subscriptions.opened() == [named]
    del one, named
    gc.collect()
    assert subscriptions.opened() == []
    assert list(subscriptions.needs()) == [EpochNeed("v", 3, within=1000)]  # its cursor stays
    assert subscriptions.tapped() == {"v"}


def test_waiting_ends_after_a_while(tmp_path: Path) -> None:
    told = Told(tmp_path)
    one = open_one(told.subscriptions(), timeout=0.01)
    assert list(one) == [(0, "v at 0")]
    told.step()
    assert list(one) == [(1, "v 0 to 1")]


STEPS = st.lists(st.sampled_from(["step", "hold", "take", "ack", "restart"]), max_size=12)


@settings(max_examples=15)
@given(STEPS, st.sets(st.integers(1, 6)))
def test_every_change_comes_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], quiet: set[int]
) -> None:
    told = Told(tmp_path_factory.mktemp("told"), quiet=quiet)
    one = open_one(told.subscriptions(), name="mine")
    taken: list[int] = []
    start = 0
    for step in [*steps, "step", *["take"] * 20]:
        match step:
            case "step":
                told.step()
            case "hold":
                told.step(v=told.log.reach(told.snapshot(), "v"))
            case "take":
                for epoch, _ in one:
                    # What was given out before a restart and not taken comes again.
                    assert epoch > (taken[-1] if taken else -1)
                    one.ack()
                    taken.append(epoch)
                    break
            case "ack":
                one.ack()
            case "restart":
                again = Told(told.root, quiet=quiet)
                again.step(again.timeline.epoch, **told.parts.scheduler.since)
                told, subscriptions = again, again.subscriptions()
                if not subscriptions.named():  # nothing was taken: it begins with all rows of now
                    start = told.log.reach(told.snapshot(), "v")
                one = open_one(subscriptions, name="mine")
    reach = told.log.reach(told.snapshot(), "v")
    assert [each for each in taken if each > start] == [
        each for each in range(start + 1, reach + 1) if each not in quiet
    ]
