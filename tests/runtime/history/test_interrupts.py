"""Ctrl-C comes before a commit or behind it, never inside."""

from __future__ import annotations

import signal
import threading

import pytest

from laminar.runtime.history.ledger import Interrupts


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_what_comes_within_a_commit_comes_behind_it() -> None:
    held, done = Interrupts(), []

    def commit() -> None:
        with held.until_done():
            held.hold()
            press()
            done.append("all that follows from the commit")

    with pytest.raises(KeyboardInterrupt):
        commit()
    assert done
    with pytest.raises(KeyboardInterrupt):
        press()


def test_what_comes_before_a_commit_comes_at_once() -> None:
    held, done = Interrupts(), []

    def commit() -> None:
        with held.until_done():
            press()
            done.append("a commit")

    with pytest.raises(KeyboardInterrupt):
        commit()
    assert not done


def test_only_the_outermost_lets_go() -> None:
    held, done = Interrupts(), []

    def commits() -> None:
        with held.until_done():
            with held.until_done():
                held.hold()
                press()
            done.append("what the outer one still does")

    with pytest.raises(KeyboardInterrupt):
        commits()
    assert done


def test_nothing_is_held_outside() -> None:
    held = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    held.hold()
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_holds_nothing() -> None:
    held = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def commit() -> None:
        with held.until_done():
            held.hold()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=commit)
    thread.start()
    thread.join(10)
    assert seen == [before]


def test_an_error_lets_go_too() -> None:
    held = Interrupts()
    before = signal.getsignal(signal.SIGINT)

    def fails() -> None:
        with held.until_done():
            held.hold()
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fails()
    assert signal.getsignal(signal.SIGINT) is before
