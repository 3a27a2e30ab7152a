"""Sinks that fail, hang and come back: the others do not notice, and each gets what it is promised.

Real threads, a clock that is scripted, and no Spark. Wherever a test waits it gives up after a
minute.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laminar.connectors import sink as connectors
from laminar.connectors.factories import Entry
from laminar.errors import ConnectorError, NotSupported, SinkBehind, SinkHolds
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.output.bounded_call import bounded
from laminar.runtime.output.changelog import EpochNeed
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sinks import Publisher
from laminar.testing.waiting import until

from .told import Told
from .written import OPEN, Clock, Written, publisher, sink, threads

PATIENCE = 60.0


class Hung:
    """A place that whoever comes to waits in, until a test lets all go on."""

    def __init__(self) -> None:
        self.entered, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.may_go_on.wait(PATIENCE)


@pytest.fixture
def hung() -> Iterator[Hung]:
    made = Hung()
    yield made
    made.may_go_on.set()


def numbers(one: Written) -> list[int]:
    return [epoch for epoch, _ in one.epochs]


def test_one_that_is_down_for_long_gets_every_epoch_in_order(tmp_path: Path) -> None:
    told, clock = Told(tmp_path), Clock()
    sinks = publisher(told, clock)
    down, other = sink(sinks, "down", fails=OSError("refused")), sink(sinks, "other")
    for _ in range(200):
        told.step()
        sinks.waits.settle()
        clock.now += 7.0
    assert numbers(other) == [*range(201)]
    assert down.epochs == []
    status = sinks.progress.status("down")
    assert (status.state, status.reason, status.lag_epochs) == ("retrying", "refused", 201)
    assert 5 < status.attempts < 40  # not at every epoch
    down.fails = None
    sinks.resume("down")
    assert numbers(down) == [*range(201)]
    assert down.epochs[1:] == other.epochs[1:]
    assert sinks.progress.status("down").state == "running"


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), MemoryError(), GeneratorExit(), OSError()]
)
def test_whatever_it_raises_is_its_own_affair(tmp_path: Path, error: BaseException) -> None:
    told, clock = Told(tmp_path), Clock()
    sinks = publisher(told, clock)
    one, other = sink(sinks, "k", fails=error), sink(sinks, "other")
    told.step()
    sinks.waits.settle()
    assert sinks.progress.status("k").state == "retrying"
    assert sinks.progress.status("k").reason
    assert numbers(other) == [0, 1]
    one.fails = None
    sinks.resume("k")
    assert numbers(one) == [0, 1]


def test_one_that_hangs_is_waited_for_once(tmp_path: Path, hung: Hung) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    stuck, other = sink(sinks, "k"), sink(sinks, "other")
    sinks.waits.settle()
    stuck.during = hung
    sinks.waits.limits.wait = 0.01
    told.step()
    sinks.waits.settle()
    assert hung.entered.wait(PATIENCE)
    sinks.waits.limits.wait = PATIENCE * 2
    for _ in range(5):
        told.step()
        sinks.waits.settle()
    assert numbers(other) == [*range(7)]
    assert sinks.progress.status("k").lag_epochs == 6
    hung.may_go_on.set()
    until(sinks.progress.is_level)
    assert numbers(stuck) == [*range(7)]
    told.step()
    until(lambda: not sinks.books.outlets["k"].is_slow)
    sinks.waits.settle()
    assert numbers(stuck) == [*range(8)]


def test_closing_leaves_one_behind_that_hangs(
    tmp_path: Path, hung: Hung, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    stuck, other = sink(sinks, "stuck"), sink(sinks, "other")
    sinks.waits.settle()
    stuck.during = hung
    told.step()
    sinks.waits.limits.wait = 0.01
    OPEN.remove(sinks)
    sinks.close()
    assert 'closed without sink "stuck", which is writing epoch 1' in caplog.text
    until(lambda: other.closed)
    until(lambda: threads() == ["laminar sink stuck"])
    assert all(each.daemon for each in threading.enumerate() if each.name.startswith("laminar si"))
    # What it writes now counts as not written: the folder may be somebody else's.
    hung.may_go_on.set()
    until(lambda: not threads())
    assert (numbers(stuck), stuck.closed) == ([0, 1], 1)
    assert sinks.books.cursor("stuck") == 0


def test_one_that_hangs_as_it_is_closed(tmp_path: Path, hung: Hung) -> None:
    sinks = publisher(Told(tmp_path))
    one = sink(sinks, "k")
    one.close = hung  # type: ignore[method-assign]
    sinks.waits.settle()
    sinks.waits.limits.wait = 0.01
    with sinks.removing(["k"]):
        pass
    sinks.waits.close_retired()
    assert sinks.books.sinks() == ()
    other = sink(sinks, "l")
    sinks.waits.limits.wait = PATIENCE
    sinks.waits.settle()
    assert numbers(other) == [0]


def test_a_call_that_never_comes_back_has_an_end(hung: Hung) -> None:
    late: list[int] = []

    def begin() -> int:
        hung()
        return 7

    with pytest.raises(ConnectorError, match=r"k") as found:
        bounded("k", begin, 0.01, late.append)
    assert found.value.detail == "it has not answered for 0.01 s"
    hung.may_go_on.set()
    until(lambda: late == [7])
    assert bounded("k", lambda: 3, PATIENCE) == 3
    with pytest.raises(ConnectorError) as found:  # it ends nobody but its own thread
        bounded("k", lambda: exec("raise SystemExit"), PATIENCE)
    assert isinstance(found.value.__cause__, SystemExit)


def test_one_that_is_too_far_behind_is_suspended_and_goes_on_with_the_difference(
    tmp_path: Path,
) -> None:
    told, clock = Told(tmp_path), Clock()
    told.timeline.retained = 1
    sinks = publisher(told, clock)
    one = sink(sinks, "k", rule={"max_lag_epochs": "3"})
    told.step()
    sinks.waits.settle()
    one.fails = OSError("refused")
    for _ in range(3):
        told.step()
    sinks.waits.settle()
    assert sinks.progress.status("k").state == "retrying"
    assert set(told.timeline.epochs()) >= {1, 2, 3, 4}
    for _ in range(6):
        told.step()
    status = sinks.progress.status("k")
    assert (status.state, status.next_try_ms) == ("suspended", None)
    assert status.reason == (
        "it is 4 epochs behind, more than max_lag_epochs = 3; before that: refused"
    )
    assert list(sinks.progress.needs()) == [EpochNeed("v", 1, is_away=True)]
    assert not {4, 5, 6} & set(told.timeline.epochs())  # nobody keeps them any more
    one.fails = None
    clock.now = 1e6
    sinks.books.wake()
    told.step()
    sinks.waits.settle()
    assert numbers(one) == [0, 1]  # it is left alone
    sinks.resume("k")
    # The epoch that may have been in its hands comes as it was, and then the difference.
    assert one.epochs[2] == (2, "v 1 to 2")
    taken, newest = one.epochs[2][0], told.timeline.epoch
    for epoch, change in one.epochs[3:]:
        assert change == f"v {taken} to {epoch}"
        taken = epoch
    assert taken == newest
    assert len(one.epochs) < newest
    assert sinks.progress.status("k").state == "running"


def test_one_that_was_resumed_far_behind_is_not_suspended_again(tmp_path: Path, hung: Hung) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    one = sink(sinks, "k", rule={"max_lag_epochs": "3"}, fails=OSError("refused"))
    for _ in range(9):
        told.step()
    sinks.waits.settle()
    assert sinks.progress.status("k").state == "suspended"
    one.fails, one.during = None, hung
    sinks.waits.limits.wait = 0.01
    sinks.resume("k")
    assert hung.entered.wait(PATIENCE)
    told.step()
    told.step()
    assert sinks.progress.status("k").state == "running"
    told.step()
    told.step()
    assert sinks.progress.status("k").state == "suspended"  # also while it hangs


def test_one_that_holds_the_epochs(tmp_path: Path) -> None:
    told, clock, room = Told(tmp_path), Clock(), threading.Event()
    sinks = publisher(told, clock)
    sinks.books.on_room = room.set
    one = sink(sinks, "k", rule={"max_lag_epochs": "2", "on_lag": "hold"}, fails=OSError("refused"))
    sinks.waits.make_room()
    told.step()
    told.step()
    sinks.waits.settle()
    assert sinks.waits.holding() == ("k", 2)
    with pytest.raises(SinkHolds, match='"k", which is 2 epochs behind') as found:
        sinks.waits.make_room()
    assert "refused" in found.value.detail
    assert sinks.progress.status("k").state == "retrying"  # never suspended
    one.fails = None
    sinks.resume("k")
    assert room.is_set()
    assert sinks.waits.holding() is None
    sinks.waits.make_room()
    assert numbers(one) == [0, 1, 2]


def test_a_pause_lasts(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    one = sink(sinks, "k")
    sinks.waits.settle()
    sinks.pause("k")
    for _ in range(3):
        told.step()
        sinks.waits.settle()
    assert numbers(one) == [0]
    again = publisher(told)
    again.load(sinks.to_json())
    again.open()
    found = Written()
    assert again.attach("k", "v", found)
    told.step()
    again.waits.settle()
    assert (found.epochs, again.progress.status("k").state) == ([], "paused")
    again.resume("k")
    assert numbers(found) == [1, 2, 3, 4]


def test_what_cannot_be_reached_at_opening_is_away_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, clock, made = Told(tmp_path), Clock(), Written()
    is_up = threading.Event()

    def build(_: Any) -> Written:
        if not is_up.is_set():
            raise OSError("no such host")
        return made

    monkeypatch.setitem(connectors._FACTORIES.known, "far", Entry(build))
    sinks = publisher(told, clock)
    with sinks.adding(SinkDefinition("k", "v", "far")):
        pass
    sinks.open()
    told.step()
    sinks.waits.settle()
    status = sinks.progress.status("k")
    assert (status.state, status.reason, status.epoch) == ("away", "no such host", None)
    is_up.set()
    for _ in range(100):
        if sinks.progress.status("k").state == "running":
            break
        clock.now += 60.0
        sinks.books.wake()
        sinks.waits.settle()
        threading.Event().wait(0.01)
    until(sinks.progress.is_level)
    assert numbers(made) == [0, 1]


def test_a_statement_that_needs_it_level_says_which_is_not(tmp_path: Path, hung: Hung) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    broken, slow = sink(sinks, "broken", fails=OSError("refused")), sink(sinks, "slow")
    sinks.waits.bring_level(["slow"], "ALTER v")
    assert sinks.progress.is_level(["slow"])
    with pytest.raises(SinkBehind, match='"broken"') as found:
        sinks.waits.bring_level(["slow", "broken"], "ALTER v")
    assert found.value.detail.endswith("refused")
    slow.during = hung
    told.step()
    sinks.waits.limits.timeout = 0.01
    with pytest.raises(SinkBehind, match='"slow"'):
        sinks.waits.bring_level(["slow"], "ALTER v")
    sinks.waits.bring_level([], "ALTER w")
    assert broken.epochs == []


def test_two_never_write_to_one_place(tmp_path: Path, hung: Hung) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    first = sink(sinks, "k", target="file")
    sinks.waits.settle()
    first.during = hung
    told.step()
    assert hung.entered.wait(PATIENCE)
    with sinks.removing(["k"]):
        pass
    with pytest.raises(NotSupported, match="second sink"):
        sinks.refuse_shared(Written(target="file"), "k")
    sinks.waits.limits.wait = 0.01
    second = sink(sinks, "k", at=1, target="another")
    sinks.waits.settle()
    assert second.epochs == []  # one of its name is at it
    assert sinks.progress.status("k").state == "away"
    assert "has not come back" in str(sinks.progress.status("k").reason)
    hung.may_go_on.set()
    until(sinks.progress.is_level)
    assert (numbers(first), numbers(second)) == ([0, 1], [1])
    sinks.refuse_shared(Written(target="file"), "l")


def test_twenty_of_which_every_other_hangs_or_fails(tmp_path: Path, hung: Hung) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    sinks.waits.limits.wait = 0.05
    made = [sink(sinks, f"k{at}") for at in range(20)]
    for at, each in enumerate(made):
        each.during = hung if at % 4 == 1 else each.during
        each.fails = OSError("refused") if at % 4 == 3 else None
    for _ in range(10):
        told.step()
        sinks.waits.settle()
    until(lambda: all(numbers(each)[-1:] == [10] for each in made[::2]))
    with sinks.removing([f"k{at}" for at in range(20)]):
        pass
    sinks.waits.close_retired()
    hung.may_go_on.set()
    until(lambda: not threads())
    assert all(each.closed == 1 for each in made)


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_epochs_failures_and_statements(tmp_path: Path, seed: int) -> None:
    """Whatever comes between: in order, nothing left out, only the last one again."""
    choose = random.Random(seed)
    told, clock = Told(tmp_path), Clock()
    told.timeline.retained = 2
    written: dict[str, Written] = {}
    sinks = publisher(told, clock)

    def connect(into: Publisher, name: str) -> None:
        written[name] = Written(epochs=written[name].epochs if name in written else [])
        if not into.attach(name, "v", written[name]):
            with into.adding(SinkDefinition(name, "v", OBJECT, from_epoch=told.timeline.epoch)):
                pass
            into.connect(into.books.defined[name], written[name])

    def reopened(before: Publisher) -> Publisher:
        OPEN.remove(before)
        told.log.needs.remove(before.progress.needs)
        told.sinks.remove(before)
        if choose.random() < 0.5:  # as if it had crashed: what it had in hand is lost
            with before.books._lock:
                before.books._held += 1
        definitions = before.to_json()
        before.close()
        made = publisher(told, clock)
        made.load(definitions)
        made.open()
        for name in made.books.defined:
            connect(made, name)
        return made

    for name in ("a", "b", "c"):
        connect(sinks, name)
    for _ in range(120):
        name = choose.choice(sorted(sinks.books.defined) or ["a"])
        match choose.randrange(13):
            case 0 | 1 | 2 | 3:
                told.step()
            case 4:
                written[name].fails = OSError("refused")
            case 5:
                written[name].fails = None
            case 6:
                sinks.waits.settle()
            case 7:
                clock.now += choose.choice([0.5, 1.0, 60.0])
                sinks.books.wake()
            case 8 if name in sinks.books.defined:
                sinks.pause(name)
            case 9 if name in sinks.books.defined:
                sinks.resume(name)
            case 10 if choose.random() < 0.3:
                sinks = reopened(sinks)
            case 11 if choose.random() < 0.3:
                with sinks.books.held():
                    told.step()
            case 12 if choose.random() < 0.5:  # dropped, and another one of its name created
                with sinks.removing([name]):
                    pass
                if choose.random() < 0.5:
                    sinks.waits.close_retired()
                del written[name]
                connect(sinks, name)
    for name in sinks.books.defined:
        written[name].fails = None
        sinks.resume(name)
    until(sinks.progress.is_level)
    for name in sinks.books.defined:
        taken: list[int] = []
        for epoch, change in written[name].epochs:
            if taken and epoch == taken[-1]:
                assert change.endswith(f" {epoch}")  # again, with the same rows
                continue
            if taken:
                assert change == f"v {taken[-1]} to {epoch}", name
            taken.append(epoch)
        assert taken == sorted(set(taken))
        assert taken[-1] == told.timeline.epoch
