"""The writer's turn: one thread at a time, in order, and no wait without an end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from laminar.errors import DatabaseClosed, WriterBusy, WriteWithinEpoch
from laminar.runtime.history.turn import WriterTurn, inside

ROOT, OTHER = Path("/db").resolve(), Path("/other").resolve()


class Clock:
    """Seconds, as the test says; every reading may move it on."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 100.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Busy:
    """A thread that has the turn until it is told to leave."""

    def __init__(self, turn: WriterTurn, what: str) -> None:
        self.has, self.may_leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(turn, what), name="a-writer")
        self._thread.start()
        assert self.has.wait(10)

    def _run(self, turn: WriterTurn, what: str) -> None:
        with turn(what):
            self.has.set()
            assert self.may_leave.wait(10)

    def leave(self) -> None:
        self.may_leave.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


def in_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def until_waiting(turn: WriterTurn, count: int) -> None:
    """Wait until so many are in the queue; the condition is handed around, so nobody sleeps."""
    for _ in range(100_000):
        with turn._changed:
            if len(turn._queue) >= count:
                return
    pytest.fail("nobody waits")


def test_who_has_it_may_take_it_again_and_says_what_for() -> None:
    turn = WriterTurn(ROOT, Clock())
    assert turn.holder is None
    with turn("a step"):
        assert turn.is_mine
        with turn("REFRESH v"):
            turn.doing("epoch 12")
            assert turn.holder is not None
            assert (turn.holder.what, turn.holder.since) == ("epoch 12", 100.0)
            assert turn.holder.thread == threading.current_thread().name
        assert turn.holder.what == "a step"
    assert turn.holder is None
    assert not turn.is_mine


def test_a_wait_ends_and_says_for_whom_it_was() -> None:
    clock = Clock()
    turn = WriterTurn(ROOT, clock)
    busy = Busy(turn, "epoch 12")
    clock.step = 600.0  # whoever looks at the clock has waited for ten minutes
    with pytest.raises(WriterBusy) as found, turn("CREATE t"):
        pytest.fail("nobody may be here")
    assert found.value.message == "another writer is busy: epoch 12 runs since 1800 s"
    assert "a-writer" in found.value.detail
    assert "writer_timeout_ms" in found.value.hint
    assert not turn._queue  # and the next one is not behind a ghost
    busy.leave()
    with turn("CREATE t"):
        assert turn.is_mine


def test_without_patience_nobody_waits() -> None:
    turn = WriterTurn(ROOT)
    turn.timeout_ms = 0
    with turn("free"):
        pass
    busy = Busy(turn, "epoch 1")
    with pytest.raises(WriterBusy), turn("a step"):
        pass
    busy.leave()


def test_it_is_given_in_the_order_in_which_it_was_asked_for() -> None:
    turn, came = WriterTurn(ROOT), list[int]()
    busy = Busy(turn, "epoch 1")

    def come(number: int) -> None:
        with turn(str(number)):
            came.append(number)

    threads = []
    for number in range(5):
        threads.append(in_thread(partial(come, number)))
        until_waiting(turn, number + 1)
    busy.leave()
    for each in threads:
        each.join(10)
    assert came == [0, 1, 2, 3, 4]


def test_who_gives_up_does_not_hold_back_those_behind() -> None:
    clock = Clock()
    turn, came, gone = WriterTurn(ROOT, clock), threading.Event(), threading.Event()
    busy = Busy(turn, "epoch 1")

    def impatient() -> None:
        with pytest.raises(WriterBusy), turn("first"):
            pass
        gone.set()

    def patient() -> None:
        with turn("second"):
            came.set()

    first = in_thread(impatient)
    until_waiting(turn, 1)
    clock.now += 300.0
    second = in_thread(patient)
    until_waiting(turn, 2)
    clock.now += 350.0  # ten minutes are over for the first alone
    with turn._changed:
        turn._changed.notify_all()
    assert gone.wait(10)
    assert not came.is_set()
    busy.leave()
    assert came.wait(10)
    first.join(10)
    second.join(10)


def test_if_free_never_waits() -> None:
    turn = WriterTurn(ROOT)
    with turn.if_free("storing") as is_mine:
        assert is_mine
        assert turn.is_mine
    busy = Busy(turn, "epoch 1")
    with turn.if_free("storing") as is_mine:
        assert not is_mine
        assert not turn.is_mine
    busy.leave()
    with turn("a step"), turn.if_free("storing") as is_mine:
        assert is_mine
    with inside(ROOT, "v"), turn.if_free("storing") as is_mine:
        assert not is_mine


def test_what_an_epoch_runs_is_refused_at_once_also_on_the_thread_that_has_it() -> None:
    turn = WriterTurn(ROOT)
    with turn("epoch 3"), inside(ROOT, "v"):
        assert turn.is_inside
        with pytest.raises(WriteWithinEpoch) as found, turn("CREATE t"):
            pass
        assert 'an epoch would wait for itself: "v", which it waits for, asks for CREATE t' in str(
            found.value
        )
        with inside(OTHER, "w"), pytest.raises(WriteWithinEpoch), turn("a step"):
            pass  # also if another database is between
        with WriterTurn(OTHER)("a step"):
            pass  # which does not wait for this one
    assert not turn.is_inside
    with turn("CREATE t"):
        pass


def test_when_it_is_closed_those_who_wait_hear_so() -> None:
    turn, refused = WriterTurn(ROOT), threading.Event()

    def wait() -> None:
        with pytest.raises(DatabaseClosed), turn("a step"):
            pass
        refused.set()

    with turn("close"):
        waiting = in_thread(wait)
        until_waiting(turn, 1)
        turn.close()
        assert refused.wait(10)
        with turn("again, by who closes"):
            pass
    waiting.join(10)
    with pytest.raises(DatabaseClosed), turn("a step"):
        pass
    with turn.if_free("storing") as is_mine:
        assert not is_mine


def test_an_error_leaves_it_to_the_next() -> None:
    turn = WriterTurn(ROOT)
    with pytest.raises(ZeroDivisionError), turn("a step"):
        raise ZeroDivisionError
    done = threading.Event()

    def come() -> None:
        with turn("another"):
            done.set()

    in_thread(come).join(10)
    assert done.is_set()
