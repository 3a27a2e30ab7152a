"""Sinks: every epoch reaches each of them, in order, whatever becomes of the others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from laminar.connectors import sink as connectors
from laminar.connectors.factories import Entry
from laminar.errors import ConnectorError, LaminarError, NotSupported, RelationExists
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.output.changelog import EpochNeed
from laminar.runtime.output.outputs import Outputs
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.testing.waiting import until

from .told import Told
from .written import OPEN, Clock, Written, publisher, sink


class DiskFull(Exception):
    """Stands for whatever keeps a commit from happening."""


def test_all_rows_first_and_then_each_epoch(tmp_path: Path) -> None:
    told = Told(tmp_path, quiet={2})
    sinks = publisher(told)
    with sinks.books.held():
        one = sink(sinks, "k")
        assert (sinks.books.cursor("k"), sinks.progress.is_level()) == (None, False)
        told.step()
    sinks.waits.settle()
    assert one.epochs == [(0, "v at 0"), (1, "v 0 to 1")]
    told.step()
    told.step()
    sinks.waits.settle()
    assert one.epochs[2:] == [(3, "v 2 to 3")]  # in 2 nothing changed
    assert (sinks.books.cursor("k"), sinks.progress.is_level()) == (3, True)
    sinks.waits.settle()
    assert len(one.epochs) == 3


def test_one_that_fails_keeps_nothing_from_the_others_and_gets_it_later(tmp_path: Path) -> None:
    told, clock = Told(tmp_path), Clock()
    sinks = publisher(told, clock)
    broken, whole = sink(sinks, "broken", fails=OSError("no room\nstack")), sink(sinks, "whole")
    told.step()
    sinks.waits.settle()
    found = sinks.progress.status("broken")
    assert (found.state, found.reason, found.attempts) == ("retrying", "no room", 1)
    assert found.next_try_ms == 1_001_000
    assert (broken.epochs, sinks.books.cursor("broken")) == ([], None)
    assert [epoch for epoch, _ in whole.epochs] == [0, 1]
    told.step()
    broken.fails = None
    sinks.waits.settle()
    assert broken.epochs == []  # nobody waits for it, and it is not called before its time
    clock.now = 1.0
    sinks.books.wake()
    until(sinks.progress.is_level)
    assert [epoch for epoch, _ in broken.epochs] == [0, 1, 2]
    assert sinks.progress.status("broken").state == "running"


def test_an_error_of_ours_keeps_its_words(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    sink(sinks, "k", fails=NotSupported("this", "that"))
    with pytest.raises(ConnectorError, match="not supported: this") as raised:
        sinks.waits.await_first(sinks.books.defined["k"])
    assert raised.value.connector == "k"


def test_a_view_that_is_held_has_nothing_for_its_sinks(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    one, other = sink(sinks, "k"), sink(sinks, "l", "t")
    told.step(v=0)
    sinks.waits.settle()
    assert ([e for e, _ in one.epochs], [e for e, _ in other.epochs]) == ([0], [0, 1])
    assert sinks.progress.is_level()
    with sinks.books.held():
        told.step()
        assert not sinks.progress.is_level()
    sinks.waits.settle()
    assert one.epochs[1:] == [(1, "v 0 to 1"), (2, "v 1 to 2")]


def test_cursors_survive_and_needs_follow_them(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    sink(sinks, "k")
    assert list(sinks.progress.needs()) == [EpochNeed("v", 0)]
    told.step()
    sinks.waits.settle()
    assert list(sinks.progress.needs()) == [EpochNeed("v", 1)]
    again = publisher(Told(tmp_path))
    again.load(sinks.to_json())
    again.open()
    assert again.books.sinks() == sinks.books.sinks()
    assert again.books.cursor("k") == 1
    # Its code is not back yet.
    assert list(again.progress.needs()) == [EpochNeed("v", 1, is_away=True)]
    assert again.progress.is_level()  # nobody waits for one that is away
    assert not again.attach("k", "t", Written())
    assert not again.attach("other", "v", Written())
    assert again.attach("k", "v", Written())
    assert list(again.progress.needs()) == [EpochNeed("v", 1)]


def test_a_sink_is_known_only_if_the_commit_succeeds(tmp_path: Path) -> None:
    sinks = publisher(Told(tmp_path))
    with pytest.raises(DiskFull), sinks.adding(SinkDefinition("k", "v", OBJECT)):
        raise DiskFull
    assert sinks.books.sinks() == ()
    one = sink(sinks, "k")
    with pytest.raises(DiskFull), sinks.removing(["k"]):
        raise DiskFull
    assert [each.name for each in sinks.books.sinks()] == ["k"]
    sinks.waits.settle()
    assert (len(one.epochs), one.closed) == (1, 0)
    with sinks.removing(["k"]):
        pass
    assert (sinks.books.sinks(), sinks.books.cursor("k")) == ((), None)
    sinks.waits.close_retired()
    assert one.closed == 1


def test_names_of_sinks_are_taken(tmp_path: Path) -> None:
    sinks = publisher(Told(tmp_path))
    one = sink(sinks, "k")
    with pytest.raises(RelationExists), sinks.adding(SinkDefinition("k", "v", "files")):
        pass
    sinks.waits.settle()
    with sinks.books.held():
        sink(sinks, "k", "t", at=0)  # Python code is about something else now: it starts anew
        assert sinks.books.cursor("k") is None
    sinks.waits.close_retired()
    assert one.closed == 1


def test_two_sinks_do_not_write_to_one_place(tmp_path: Path) -> None:
    sinks = publisher(Told(tmp_path))
    sink(sinks, "k", target="file")
    sink(sinks, "l")
    sinks.refuse_shared(Written(target="another"), "m")
    sinks.refuse_shared(Written(), "m")
    with pytest.raises(NotSupported, match='"k"'):
        sinks.refuse_shared(Written(target="file"), "m")


def test_questions(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    sink(sinks, "k")
    sink(sinks, "l", "t")
    assert sinks.books.of(["v"]) == ["k"]
    assert sinks.books.of(["t", "v"]) == ["k", "l"]
    assert sinks.books.tapped() == {"t", "v"}
    outputs = Outputs(told.log, publisher(told), told.subscriptions())
    assert outputs.tapped() == set()
    followed = outputs.subscriptions.subscribe("v", None, lambda found, _: found, name="mine")
    list(followed)
    assert outputs.tapped() == {"v"}
    assert Outputs(told.log, sinks, told.subscriptions()).tapped() == {"t", "v"}


def test_what_a_sink_commits_while_it_writes_comes_behind(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    with sinks.books.held():
        first = sink(sinks, "first")
        second = sink(sinks, "second")
        second.during = lambda: step_once()

    def step_once() -> None:
        second.during = lambda: None
        told.step()
        assert sinks.waits.is_sink
        sinks.waits.settle()  # it would wait for itself: all is handed over behind this

    until(lambda: sinks.progress.is_level() and sinks.books.cursor("second") == 1)
    for each in (first, second):
        assert each.epochs == [(0, "v at 0"), (1, "v 0 to 1")]


def test_one_that_is_dropped_while_it_writes(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    with sinks.books.held():
        one = sink(sinks, "k")
        one.during = lambda: drop()

    def drop() -> None:
        with sinks.removing(["k"]):
            pass
        sinks.waits.close_retired()
        assert one.closed == 0  # not while it writes

    until(lambda: one.closed)
    assert (one.epochs, one.closed) == ([(0, "v at 0")], 1)
    assert sinks.books.cursor("k") is None


def test_a_connector_that_came_too_late_is_closed_and_gets_nothing(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    first, late = sink(sinks, "k"), Written()
    (known,) = sinks.books.sinks()
    third = Written()
    sinks.connect(known, third)
    sinks.waits.close_retired()
    assert (first.closed, third.closed) == (1, 0)
    with sinks.removing(["k"]):
        pass
    sinks.connect(known, late)
    until(lambda: late.closed)
    again = sink(sinks, "k")  # another one of its name
    sinks.connect(known, late)
    sinks.waits.settle()
    until(lambda: late.closed == 2)
    assert ([epoch for epoch, _ in again.epochs], late.epochs) == ([0], [])


def test_definitions_that_stay_keep_their_connectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Written] = []

    def build(spec: Any) -> Any:
        assert (spec.schema.fields[0].name, spec.key) == ("a", None)
        assert spec.options.get("path")
        made.append(Written())
        return made[-1]

    monkeypatch.setitem(connectors._FACTORIES.known, "noted", Entry(build))
    sinks = publisher(Told(tmp_path))
    kept = SinkDefinition("k", "v", "noted", {"path": "x"})
    moved = SinkDefinition("m", "v", "noted", {"path": "y"})
    with pytest.raises(LaminarError):
        sinks.build(SinkDefinition("k", "v", "noted", {"path": "x", "odd": "1"}))
    sinks.load([])
    for each in (kept, moved):
        with sinks.adding(each):
            pass
        sinks.open()
        sinks.waits.settle()
    first = made[-2:]
    elsewhere = {**vars_of(moved), "options": {"path": "z"}}
    sinks.waits.settle()
    sinks.load([vars_of(kept), elsewhere])
    sinks.open()
    sinks.waits.settle()
    sinks.waits.close_retired()
    assert [each.closed for each in first] == [0, 1]
    # The one with an odd option, the first two, and the one that moved.
    until(lambda: len(made) == 4)
    OPEN.remove(sinks)
    sinks.close()
    assert [each.closed for each in made] == [1, 1, 1, 1]
    assert sinks.books.sinks() == ()


def vars_of(definition: SinkDefinition) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in definition.__slots__}


def test_one_that_is_level_waits_until_it_is_woken(tmp_path: Path) -> None:
    told = Told(tmp_path)
    sinks = publisher(told)
    sink(sinks, "k")
    told.step()
    sinks.waits.settle()
    runner = sinks.books.outlets["k"].runner
    waits, waited = [], threading.Event()
    wait = runner.wait

    def noted(seen: int, at_most: float | None) -> None:
        waits.append(seen == runner.signals)
        if waits[-1]:
            waited.set()  # nothing has come since it looked: it sleeps now
        wait(seen, at_most)

    runner.wait = noted  # type: ignore[method-assign]
    for _ in range(3):
        waited.clear()
        sinks.books.wake()
        assert waited.wait(60)
    assert len(waits) <= 12  # not again and again, by what it says itself
