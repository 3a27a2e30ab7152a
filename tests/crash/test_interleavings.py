"""Threads in any order: those that insert, read, define, keep and publish, beside the loop.

`make test` tries two orders, `make test-all` ten, `make soak` a thousand.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar.store import durable_files

from .disk_scenario import PUBLISHED, Meeting
from .interleaver import Interleaver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("LAMINAR_SEED", "1"))
_AT_MOST = 120.0


def orders() -> int:
    """How many orders are tried."""
    if int(os.environ.get("LAMINAR_KILLS", "0")) >= 10:
        return 1000
    return 10 if os.environ.get("LAMINAR_TESTS") == "all" else 1


def test_orders_differ_by_seed() -> None:
    """The interleaver itself: everybody comes through, one at a time, in more than one order."""
    found = [_order(seed) for seed in range(6)]
    assert {tuple(sorted(each)) for each in found} == {tuple("aaabbbccc")}
    assert len(set(found)) > 2


def _order(seed: int) -> tuple[str, ...]:
    order: list[str] = []
    interleaver = Interleaver(seed)

    def passing(name: str) -> None:
        for _ in range(3):
            durable_files.failpoint("here")
            order.append(name)

    with interleaver.deciding():
        _all_at_once([lambda name=name: passing(name) for name in "abc"])  # type: ignore[misc]
    return tuple(order)


def _all_at_once(runs: list[Callable[[], object]]) -> None:
    failed: list[BaseException] = []

    def kept(run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=kept, args=(run,), daemon=True) for run in runs]
    for each in threads:
        each.start()
    for each in threads:
        each.join(_AT_MOST)
        assert not each.is_alive(), "a thread hangs"
    if failed:
        raise failed[0]


class Crowd:
    """Threads that use one database, and what it must hold after them."""

    def __init__(self, meeting: Meeting, chance: random.Random) -> None:
        self._meeting, self._db = meeting, meeting.db
        self._chance = chance
        self._number = 0

    def run(self) -> None:
        """Do it all at once, beside the loop in the background."""
        self._number += 1
        self._db.start()
        try:
            _all_at_once([self._push, self._push_too, self._read, self._keep, self._define])
        finally:
            self._db.stop()

    def _push(self) -> None:
        for at in range(3):
            self._insert(f"k{at}", at)

    def _push_too(self) -> None:
        for at in range(2):
            self._insert("k0", at + 10)
            self._db.step()

    def _insert(self, k: str, n: int) -> None:
        self._db.insert("pushed", [(k, n)])
        self._meeting.pushed[k, n] += 1

    def _read(self) -> None:
        both = "SELECT k, SUM(n), COUNT(*) FROM both GROUP BY k"
        for _ in range(3):
            found = self._db.sql(f"({both}) EXCEPT ALL (SELECT k, n, c FROM {PUBLISHED})").rows()
            assert not found, found

    def _keep(self) -> None:
        self._db.checkpoint()

    def _define(self) -> None:
        name = f"passing{self._number}"
        self._db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT k FROM both WHERE n > 1")
        self._db.execute(f"DROP MATERIALIZED VIEW {name}")


@pytest.mark.spark
def test_threads_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    meeting = Meeting(tmp_path, spark)
    passed: Counter[str] = Counter()
    try:
        for seed in range(SEED, SEED + orders()):
            interleaver = Interleaver(seed)
            meeting.arrange(seed)
            try:
                with interleaver.deciding():
                    Crowd(meeting, random.Random(seed)).run()
                meeting.check()
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise
            sys.stdout.write(f"seed {seed}\n")
            passed["steps"] += interleaver.passed
            passed["choices"] += interleaver.choices
    finally:
        meeting.db.close()
    sys.stdout.write(f"{orders()} orders: {dict(passed)}\n")
    assert passed["choices"] > 0
