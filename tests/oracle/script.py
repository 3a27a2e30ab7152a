"""A script of changes: what happens to the tables, epoch by epoch."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from laminar.testing import Oracle

from .cases import Row

START = datetime(2026, 1, 1)

THOROUGH = os.environ.get("LAMINAR_TESTS") == "all"
"""Asked for by `make test-all`: more epochs than fit into every run."""


MORE = int(os.environ.get("LAMINAR_EPOCHS", "0"))
"""More epochs, at random: LAMINAR_EPOCHS=100 LAMINAR_SEED=7 make soak."""

SEED = int(os.environ.get("LAMINAR_SEED", "0"))


def tell(kind: str, compared: int) -> None:
    """Note in a file, if one is named, how often a view was compared after an epoch."""
    if "LAMINAR_TALLY" in os.environ:
        with Path(os.environ["LAMINAR_TALLY"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"seed": SEED, "compared": {kind: compared}}) + "\n")


def _or_null(chance: random.Random, value: Any) -> Any:
    return None if chance.random() < 0.15 else value


def _t(chance: random.Random) -> Row:
    cents = Decimal(chance.randint(-9999, 9999)) / 1000
    return (
        chance.randint(1, 12),
        _or_null(chance, chance.randint(1, 4)),
        _or_null(chance, chance.choice("abc")),
        _or_null(chance, chance.randint(0, 9)),
        _or_null(chance, chance.choice([0.1, 0.2, 0.7, 1e10, 2.5, -3.3])),
        _or_null(chance, cents),
        _or_null(chance, chance.random() < 0.5),
        _or_null(chance, START + timedelta(minutes=37 * chance.randint(0, 90))),
    )


def _u(chance: random.Random) -> Row:
    name = f"n{chance.randint(1, 3)}"
    return _or_null(chance, chance.randint(1, 5)), _or_null(chance, chance.randint(0, 7)), name


def _s(chance: random.Random) -> Row:
    return _or_null(chance, chance.randint(1, 5)), f"s{chance.randint(1, 2)}"


def _n(chance: random.Random) -> Row:
    numbers = [_or_null(chance, chance.randint(0, 3)) for _ in range(chance.randint(0, 3))]
    entries = {key: chance.randint(0, 3) for key in "pqr" if chance.random() < 0.5}
    struct = (_or_null(chance, chance.randint(0, 2)), _or_null(chance, chance.choice("xy")))
    return (
        chance.randint(1, 4),
        _or_null(chance, struct),
        _or_null(chance, numbers),
        _or_null(chance, entries),
    )


def _p(chance: random.Random) -> Row:
    return (
        chance.randint(1, 5),
        _or_null(chance, Decimal(chance.randint(-(10**30), 10**30)) / Decimal(10**18)),
        _or_null(chance, Decimal(chance.randint(-(10**13), 10**13)) / 10**4),
        _or_null(chance, chance.choice([0.5, 0.25, -1.5])),
        _or_null(chance, chance.choice([0.1, 0.3, -0.0, 0.0, math.inf, math.nan, 1e17])),
        _or_null(chance, chance.randint(0, 2)),
        _or_null(chance, date(2026, 1, chance.randint(1, 3))),
        _or_null(chance, START + timedelta(hours=chance.randint(0, 3))),
        _or_null(chance, bytes([chance.randint(0, 3)])),
    )


def _odd(chance: random.Random) -> Row:
    numbers = [_or_null(chance, chance.randint(0, 4)) for _ in range(5)]
    return (*numbers[:2], _or_null(chance, chance.choice("xy")), *numbers[2:])


EDGES = [datetime(2026, 3, 29, 0, 30), datetime(2026, 10, 24, 23, 30), datetime(1969, 12, 31, 23)]


def _z(chance: random.Random) -> Row:
    """Rows of the types that other tables leave out; times are near where clocks change."""
    structs = [
        _or_null(
            chance,
            (
                _or_null(chance, chance.randint(0, 1)),
                _or_null(chance, [_or_null(chance, "e")] * chance.randint(0, 2)),
            ),
        )
        for _ in range(chance.randint(0, 2))
    ]
    entries = {
        key: _or_null(chance, (_or_null(chance, key), chance.choice([0.5, math.nan, None])))
        for key in (1, 2)
        if chance.random() < 0.6
    }
    moment = chance.choice(EDGES) + timedelta(minutes=30 * chance.randint(0, 5), microseconds=1)
    return (
        chance.randint(1, 4),
        _or_null(chance, moment),
        _or_null(
            chance, timedelta(hours=chance.randint(-30, 30), microseconds=chance.randint(0, 1))
        ),
        _or_null(chance, structs),
        _or_null(chance, entries),
        _or_null(chance, Decimal(chance.randint(-3, 3)) * 10**32 + chance.randint(0, 9)),
        _or_null(chance, chance.choice([-(2**63), 2**63 - 1, 0, 7])),
        _or_null(chance, chance.choice(["ab", "AB", "b"])),
    )


MAKERS: dict[str, Callable[[random.Random], Row]] = {
    "t": _t,
    "u": _u,
    "s": _s,
    "n": _n,
    "p": _p,
    "odd": _odd,
    "z": _z,
}


class Script:
    """Changes of one database; each step leaves one epoch to run."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self._oracle = oracle
        self._chance = random.Random(seed + SEED)

    def steps(self) -> Iterator[str]:
        """Yield a name per epoch, its changes already handed in."""
        everything = list(MAKERS)
        self._insert(everything, 8)
        yield "inserts"
        self._change(everything)
        yield "inserts, deletes, updates and copies"
        self._delete(["u", "s"], 99)
        self._change(["n"])
        yield "two tables emptied"
        self._insert(["u", "s"], 6)
        self._delete([name for name in everything if name not in ("u", "s")], 3)
        yield "tables filled again, others only shrink"
        if not THOROUGH:
            return
        self._change(["t"])
        self._delete(["p"], 99)
        yield "one table"
        self._change(everything)
        yield "everything once more"
        for number in range(MORE):
            self._change(self._chance.sample(everything, self._chance.randint(1, len(everything))))
            if self._chance.random() < 0.2:
                self._delete([self._chance.choice(everything)], 99)
            yield f"epoch {number} of more"

    def _there(self, tables: list[str]) -> list[str]:
        """Return those that some view reads: there are no others."""
        return [name for name in tables if name in self._oracle.tables]

    def _insert(self, tables: list[str], count: int) -> None:
        for table in self._there(tables):
            rows = [MAKERS[table](self._chance) for _ in range(count)]
            self._oracle.insert(table, [*rows, *rows[:1]])

    def _delete(self, tables: list[str], count: int) -> None:
        for table in self._there(tables):
            live = self._oracle.tables[table]
            self._oracle.delete(table, live.some(self._chance, count))

    def _change(self, tables: list[str]) -> None:
        for table in self._there(tables):
            gone = self._oracle.tables[table].some(self._chance, 4)
            self._oracle.delete(table, gone)
            fresh = [MAKERS[table](self._chance) for _ in range(3)]
            updated = [(row[0], *other[1:]) for row, other in zip(gone[:2], fresh, strict=False)]
            self._oracle.insert(table, [*fresh[1:], *updated, *gone[:1]])
