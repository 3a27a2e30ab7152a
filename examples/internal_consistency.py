"""Is every read the exact answer for some prefix of the input?

Money moves between ten accounts. Two views add up what each account got and gave, a third joins
them into balances, a fourth adds up the balances:

    transactions -> credits, debits -> balance -> total

No transaction makes money, so `total` is 0 at every moment, if no view ever combines two versions
of the transactions. The test is Jamie Brandon's (Internal Consistency in Streaming Systems, 2021).
A wrong join can still add up to 0, so every account's balance and the number of rows are checked
too: all that one read returns must be right for the same prefix of the transactions.

Readers ask all the time, while epochs of 1 to 10,000 transactions are committed, and the next epoch
does not begin before somebody has seen the last one: every epoch is checked.

    python examples/internal_consistency.py --reads 10000 --readers 3 --per-epoch 10
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import laminar

ACCOUNTS = 10

VIEWS = """
CREATE TABLE transactions (id BIGINT, from_account INT, to_account INT, amount BIGINT);
CREATE MATERIALIZED VIEW credits AS
    SELECT to_account AS account, SUM(amount) AS credits FROM transactions GROUP BY to_account;
CREATE MATERIALIZED VIEW debits AS
    SELECT from_account AS account, SUM(amount) AS debits FROM transactions GROUP BY from_account;
CREATE MATERIALIZED VIEW balance AS
    SELECT COALESCE(c.account, d.account) AS account,
           COALESCE(credits, 0) - COALESCE(debits, 0) AS balance
    FROM credits c FULL JOIN debits d ON c.account = d.account;
CREATE MATERIALIZED VIEW total AS SELECT SUM(balance) AS total FROM balance;
"""
# The join is full and missing sums count as 0, so that it holds from the first row on.

QUESTION = """
SELECT 'total' AS what, CAST(NULL AS INT) AS account, COALESCE(total, 0) AS value FROM total
UNION ALL SELECT 'balance', account, balance FROM balance
UNION ALL SELECT 'rows', NULL, COUNT(*) FROM transactions
"""

Transaction = tuple[int, int, int, int]


class Truth:
    """What every account has after each epoch."""

    def __init__(self) -> None:
        self._balances: list[dict[int, int]] = [{}]
        self._counts = [0]

    def add(self, rows: Sequence[Transaction]) -> int:
        """Remember the balances after one more epoch; return its number."""
        balances = dict(self._balances[-1])
        for _, giver, taker, amount in rows:
            balances[giver] = balances.get(giver, 0) - amount
            balances[taker] = balances.get(taker, 0) + amount
        self._balances.append(balances)
        self._counts.append(self._counts[-1] + len(rows))
        return len(self._counts) - 1

    def problem(self, rows: Sequence[tuple[Any, ...]], epoch: int) -> str:
        """Say what is wrong with an answer; nothing if it is right for the epoch that it names."""
        found = {(what, account): value for what, account, value in rows}
        count = found.pop(("rows", None))
        total = found.pop(("total", None))
        balances = {account: value for (_, account), value in found.items()}
        if total != 0:
            return f"the total is {total} after {count} transactions"
        if len(found) != len(rows) - 2:
            return f"an account has two balances after {count} transactions"
        if count != self._counts[epoch]:
            return f"{count} transactions are not the {self._counts[epoch]} of epoch {epoch}"
        if balances != self._balances[epoch]:
            return f"wrong balances after {count} transactions: {balances}"
        return ""


@dataclass
class Readers:
    """Ask until they are stopped, and keep what is wrong."""

    db: laminar.Database
    truth: Truth
    reads: int = 0
    beside: int = 0
    """Reads that an epoch ran beside."""
    problems: list[str] = field(default_factory=list)
    stopped: bool = False
    working: bool = False
    """Whether an epoch is running."""
    _seen: Counter[int] = field(default_factory=Counter)
    _told: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, oldest: int = 0) -> int:
        """Ask once; return the epoch of the answer, which must not be before another."""
        was_working = self.working
        answer = self.db.sql(QUESTION)
        rows = answer.rows()
        problem = self.truth.problem(rows, answer.epoch)
        if answer.epoch < oldest:
            problem = f"epoch {answer.epoch} was read after {oldest}"
        with self._told:
            self.reads += 1
            self.beside += was_working or self.working
            self._seen[answer.epoch] += 1
            if problem:
                self.problems.append(problem)
            self._told.notify_all()
        return answer.epoch

    def run(self) -> None:
        """Ask all the time."""
        newest = 0
        try:
            while not self.stopped:
                newest = self.ask(newest)
        except Exception as error:  # a read must not fail either
            with self._told:
                self.problems.append(f"{type(error).__name__}: {error}")
                self._told.notify_all()

    def wait(self, epoch: int, times: int) -> None:
        """Wait until an epoch was read so many times, or something is wrong."""
        with self._told:
            self._told.wait_for(lambda: self._seen[epoch] >= times or self.problems)


@dataclass(frozen=True)
class Outcome:
    """What was checked, and what was wrong."""

    reads: int
    beside: int
    epochs: int
    sizes: int
    """How many different numbers of transactions the epochs had."""
    problems: Sequence[str]


def transactions(numbers: range, rng: random.Random) -> list[Transaction]:
    """Return some transactions; nobody pays himself."""
    made = []
    for number in numbers:
        giver, taker = rng.sample(range(ACCOUNTS), 2)
        made.append((number, giver, taker, rng.randint(1, 100)))
    return made


def sizes_up_to(largest: int, rng: random.Random) -> Iterator[int]:
    """Yield sizes of epochs, without end: small and large ones; then all up to 100, and any."""
    yield from (each for each in (1, 2, 3, 10, 30, 100, 300, 1000, 3000) if each < largest)
    yield largest
    for small in cycle(range(1, min(largest, 100) + 1)):
        yield small
        yield round(math.exp(rng.uniform(0, math.log(largest))))


def check(
    db: laminar.Database,
    sizes: Iterable[int],
    *,
    reads: int = 0,
    readers: int = 1,
    per_epoch: int = 1,
    seed: int = 1,
) -> Outcome:
    """Run epochs of these sizes with readers beside; say what came of it.

    Args:
        db: an empty database.
        sizes: how many transactions each epoch brings.
        reads: stop when so many reads were checked; 0 goes on to the last of the sizes.
        readers: how many ask at the same time.
        per_epoch: how often every epoch is read at least before the next one begins.
        seed: chooses the transactions.
    """
    rng, truth, used = random.Random(seed), Truth(), Counter[int]()
    db.execute(VIEWS)
    asking = Readers(db, truth)
    threads = [threading.Thread(target=asking.run) for _ in range(readers)]
    for each in threads:
        each.start()
    told = time.monotonic()
    try:
        for size in sizes:
            done = sum(each * count for each, count in used.items())
            rows = transactions(range(done, done + size), rng)
            used[size] += 1
            epoch = truth.add(rows)  # before it can be seen
            db.insert("transactions", rows)
            asking.working = True
            db.step()
            asking.working = False
            asking.wait(epoch, per_epoch)
            if asking.problems or 0 < reads <= asking.reads:
                break
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(f"{epoch} epochs, {done:,} transactions, {asking.reads:,} reads", flush=True)
    finally:
        asking.stopped = True
        for each in threads:
            each.join()
    return Outcome(asking.reads, asking.beside, used.total(), len(used), asking.problems)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, and tell what came of it."""
    parser = argparse.ArgumentParser(description="Check that no read mixes two versions.")
    parser.add_argument("--reads", type=int, default=200, help="reads to check at least")
    parser.add_argument("--readers", type=int, default=2, help="how many ask at the same time")
    parser.add_argument("--per-epoch", type=int, default=2, help="reads of each epoch at least")
    parser.add_argument("--largest", type=int, default=10_000, help="transactions per epoch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--state", type=Path, help="directory of the database; else a temporary one"
    )
    given = parser.parse_args(arguments)
    sizes = sizes_up_to(given.largest, random.Random(given.seed))
    started = time.monotonic()
    with laminar.connect(given.state) as db:
        found = check(
            db,
            sizes,
            reads=given.reads,
            readers=given.readers,
            per_epoch=given.per_epoch,
            seed=given.seed,
        )
    seconds = time.monotonic() - started
    print(
        f"{found.reads:,} reads, {found.beside:,} of them beside a running epoch, of"
        f" {found.epochs:,} epochs of {found.sizes:,} sizes in {seconds:.0f} s:"
        f" {len(found.problems)} were wrong"
    )
    for problem in found.problems[:10]:
        print(f"  {problem}")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
