"""Where a connector's code runs, and which sources are away: without Spark, by a clock of ours."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

import pytest

from laminar.connectors import source_registry
from laminar.connectors.factories import Entry
from laminar.errors import ConnectorError, ConnectorHung, RowDoesNotFit, SourceReadFailed
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.connector_building import Building, build_source
from laminar.runtime.ingest.connector_thread import ConnectorThread, Left
from laminar.runtime.ingest.source_health import AwaySources, pause_after, reason_of

SOON, NEVER = 0.02, 30.0
MARK: ContextVar[str] = ContextVar("mark", default="none")


def test_calls_run_on_one_daemon_thread_with_the_marks_of_the_caller() -> None:
    thread = ConnectorThread("s", NEVER)
    MARK.set("here")
    found = [thread.call("read", lambda: (threading.current_thread(), MARK.get())) for _ in "ab"]
    assert found[0] == found[1]
    assert found[0][0].daemon
    assert found[0][1] == "here"


@pytest.mark.parametrize("error", [ValueError("odd"), TimeoutError("its own")])
def test_what_a_call_raises_is_raised(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        ConnectorThread("s", NEVER).call("read", fail)


def test_who_wants_to_end_the_process_fails_like_any_other() -> None:
    thread = ConnectorThread("s", NEVER)
    with pytest.raises(ConnectorError):
        thread.call("read", lambda: (_ for _ in ()).throw(SystemExit(3)))
    assert thread.call("read", lambda: 5) == 5


def test_a_call_that_is_out_keeps_others_from_being_made() -> None:
    gate, made = threading.Event(), list[str]()
    thread = ConnectorThread("s", SOON)
    with pytest.raises(ConnectorHung, match=r"LMR-8012.*latest_offset"):
        thread.call("latest_offset", lambda: gate.wait(NEVER))
    before = threading.active_count()
    for _ in range(20):
        with pytest.raises(ConnectorHung, match="latest_offset"):
            thread.call("read", lambda: made.append("read"))
    assert (made, thread.hung, threading.active_count()) == ([], 1, before)
    assert thread.is_out
    gate.set()
    assert thread._late is not None
    thread._late[1].result(NEVER)
    assert not thread.is_out
    thread.call("read", lambda: made.append("read"), NEVER)
    assert made == ["read"]


def test_it_is_closed_once_the_call_that_is_out_comes_back() -> None:
    gate, closed = threading.Event(), threading.Event()
    thread = ConnectorThread("s", SOON)
    with pytest.raises(ConnectorHung):
        thread.call("read", lambda: gate.wait(NEVER))
    thread.end(closed.set)  # and this does not wait
    assert not closed.is_set()
    gate.set()
    assert closed.wait(NEVER)
    with pytest.raises(Left):
        thread.call("read", lambda: None)


def test_what_closing_raises_is_raised() -> None:
    def fail() -> None:
        raise OSError("still in use")

    with pytest.raises(OSError, match="still in use"):
        ConnectorThread("s", NEVER).end(fail)


class Closed:
    append_only = True

    def __init__(self) -> None:
        self.closed = threading.Event()

    def latest_offset(self, _start: Any) -> Any:
        return None

    def read(self, *_: Any) -> Any:
        raise AssertionError

    def close(self) -> None:
        self.closed.set()


def test_a_constructor_that_comes_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, made = threading.Event(), Closed()

    def build(_spec: Any) -> Closed:
        gate.wait(NEVER)
        return made

    monkeypatch.setitem(source_registry._FACTORIES.known, "slow", Entry(build))
    options = {"call_timeout": "20 ms"}
    table = TableDefinition("s", (), is_source=True, connector="slow", options=options)
    with pytest.raises(ConnectorHung, match="constructor"):
        build_source(table, 60_000)
    assert not made.closed.is_set()
    gate.set()
    assert made.closed.wait(NEVER)


def test_pauses_double_up_to_a_minute() -> None:
    assert [pause_after(each) for each in (1, 2, 3, 6, 7, 8, 5000)] == [1, 2, 4, 32, 60, 60, 60]


def test_a_source_is_due_after_its_pause_and_at_once_if_asked_for() -> None:
    now = 100.0
    away = AwaySources(lambda: now)
    away.note("s", OSError("gone"))
    assert away.due() == []
    now = 101.0
    assert away.due() == ["s"]
    away.note("s", ConnectorHung("s", "read", 1))
    away.again("s")
    assert away.all()["s"].attempts == 3
    assert away.all()["s"].next_try == 105.0
    assert away.hung == {"s": 1}
    away.hurry("s")
    assert away.due() == ["s"]
    away.forget("s")
    assert "s" not in away
    assert away.get("s") is None


def test_one_constructor_is_on_its_way_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, built = threading.Event(), list[int]()

    def build(_spec: Any) -> Closed:
        built.append(1)
        gate.wait(NEVER)
        return Closed()

    monkeypatch.setitem(source_registry._FACTORIES.known, "slow", Entry(build))
    table = TableDefinition("s", (), is_source=True, connector="slow")
    away = AwaySources(lambda: 0.0)
    begun = {id(away.begin(table)) for _ in range(5)}
    assert (len(begun), len(built)) == (1, 1)
    building: Building = away.begin(table)
    away.forget("s")
    gate.set()
    made = building.result(NEVER)
    assert isinstance(made, Closed)
    assert made.closed.wait(NEVER)


def test_a_reason_is_one_line_without_rows() -> None:
    assert reason_of(OSError("a\nb")) == "OSError: a"
    assert reason_of(SourceReadFailed("s", "no such file")) == (
        'LMR-8005: source "s" cannot be read: no such file'
    )
    row = reason_of(RowDoesNotFit("s", "no number", text="secret"))
    assert "secret" not in row
    assert reason_of(ValueError()).startswith("ValueError")
