"""Is every read the exact answer for some prefix of the input?

Money moves between ten accounts. Two views add up what each account got and gave, a third joins
them into balances, a fourth adds up the balances:

    transactions -> credits, debits -> balance -> total

No transaction makes money, so `total` is 0 at every moment, if no view ever combines two versions
of the transactions. The test is Jamie Brandon's (Internal Consistency in Streaming Systems, 2021).
A wrong join can still add up to 0, so every account's balance and the number of rows are checked
too: all that one read returns must be right for the same prefix of the transactions.

A reader asks all the time, while epochs of 1 to 10,000 transactions are committed.

    python examples/internal_consistency.py --reads 10000
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """What every account has after each number of transactions."""

    def __init__(self) -> None:
        self._after: dict[int, dict[int, int]] = {0: {}}
        self._last = 0

    def add(self, rows: Sequence[Transaction]) -> None:
        """Remember the balances after one more epoch."""
        balances = dict(self._after[self._last])
        for _, giver, taker, amount in rows:
            balances[giver] = balances.get(giver, 0) - amount
            balances[taker] = balances.get(taker, 0) + amount
        self._last += len(rows)
        self._after[self._last] = balances

    def problem(self, rows: Sequence[tuple[Any, ...]]) -> str:
        """Say what is wrong with an answer; nothing if it is right for a prefix of the input."""
        found = {(what, account): value for what, account, value in rows}
        count = found.pop(("rows", None))
        total = found.pop(("total", None))
        balances = {account: value for (_, account), value in found.items()}
        if total != 0:
            return f"the total is {total} after {count} transactions"
        if len(found) != len(rows) - 2:
            return f"an account has two balances after {count} transactions"
        if count not in self._after:
            return f"{count} transactions are no whole number of epochs"
        if balances != self._after[count]:
            return f"wrong balances after {count} transactions: {balances}"
        return ""


@dataclass
class Reader:
    """Asks until it is stopped, and keeps what is wrong."""

    db: laminar.Database
    truth: Truth
    reads: int = 0
    problems: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        """Ask once."""
        found = self.truth.problem(self.db.sql(QUESTION).rows())
        self.reads += 1
        if found:
            self.problems.append(found)

    def run(self) -> None:
        """Ask all the time."""
        try:
            while not self.stopped.is_set():
                self.ask()
        except Exception as error:  # a read must not fail either
            self.problems.append(f"{type(error).__name__}: {error}")


def transactions(numbers: range, rng: random.Random) -> list[Transaction]:
    """Return some transactions; nobody pays himself."""
    made = []
    for number in numbers:
        giver, taker = rng.sample(range(ACCOUNTS), 2)
        made.append((number, giver, taker, rng.randint(1, 100)))
    return made


def check(
    db: laminar.Database, sizes: Sequence[int], *, reads: int = 0, seed: int = 1
) -> tuple[int, list[str]]:
    """Run epochs of these sizes with a reader beside; return its reads, and what was wrong.

    Args:
        db: an empty database.
        sizes: how many transactions each epoch brings; again from the first if `reads` is more.
        reads: go on until so many reads were checked.
        seed: chooses the transactions.
    """
    rng = random.Random(seed)
    truth = Truth()
    db.execute(VIEWS)
    reader = Reader(db, truth)
    thread = threading.Thread(target=reader.run)
    thread.start()
    done = epoch = 0
    told = time.monotonic()
    try:
        while epoch < len(sizes) or (reader.reads < reads and not reader.problems):
            rows = transactions(range(done, done + sizes[epoch % len(sizes)]), rng)
            truth.add(rows)  # before it can be seen
            db.insert("transactions", rows)
            db.step()
            done += len(rows)
            epoch += 1
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(f"{epoch} epochs, {done:,} transactions, {reader.reads:,} reads", flush=True)
    finally:
        reader.stopped.set()
        thread.join()
    reader.ask()  # after the last epoch
    return reader.reads, reader.problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, and tell what came of it."""
    parser = argparse.ArgumentParser(description="Check that no read mixes two versions.")
    parser.add_argument("--reads", type=int, default=200, help="reads to check at least")
    parser.add_argument("--largest", type=int, default=10_000, help="transactions per epoch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--state", type=Path, help="directory of the database; else a temporary one"
    )
    given = parser.parse_args(arguments)
    sizes = [each for each in (1, 2, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
             if each <= given.largest]  # fmt: skip
    started = time.monotonic()
    with laminar.connect(given.state) as db:
        reads, problems = check(db, sizes, reads=given.reads, seed=given.seed)
        epoch = db.sql("SELECT 1").epoch
    seconds = time.monotonic() - started
    print(f"{reads:,} reads over {epoch:,} epochs in {seconds:.0f} s: {len(problems)} were wrong")
    for problem in problems[:10]:
        print(f"  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
