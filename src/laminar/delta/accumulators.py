"""Aggregates as mergeable accumulators.

A group's state is a bag of partial rows; merging them gives the accumulators, finishing those
gives the result. AVG is a sum and a count, MIN is the least of partial minima, and so on. An
accumulator is *invertible* if a negative weight undoes a positive one; where one is not, a
retraction makes the engine read the touched groups again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laminar.delta.decimal_averages import averages_exactly, decimal_quotient, digits_of
from laminar.delta.decimal_products import decimal_product
from laminar.delta.decimal_sums import WHOLE, high_of, joined, outgrows
from laminar.delta.decimal_sums import low_of as decimal_low_of
from laminar.delta.extremes import extreme
from laminar.delta.long_sums import CARRY, LONG, carry_of, low_of, within_range
from laminar.model.same_row import collation_of, is_coarse
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import AggCall

COUNT = "__n"
"""The accumulator every group has: how many rows it holds."""

_NARROW = frozenset(("tinyint", "smallint", "int"))
_FLOATING = frozenset(("float", "double"))
_SUMMED = {"floating": "DOUBLE"}


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One mergeable number (or value) of a group."""

    name: str
    partial: str  # over the input's columns and weight
    plain: str  # the same where every weight is 1: shorter, and faster
    merge: str  # SUM, MIN or MAX
    kind: str  # "count", "integer", "long", "carry", "floating", "decimal(..)" or "value"
    type: str = ""  # of a value, if Spark takes some for equal that are not the same
    low: str = ""  # of a carry: the sum that it belongs to

    @property
    def invertible(self) -> bool:
        """Whether a retraction can be added in."""
        return self.merge == "SUM" and self.kind != "floating"

    def over_rows(self, *, units: bool) -> str:
        """Fold rows into a partial row; with `units` all weights are 1 and are not looked at."""
        return self.plain if units else self.partial

    def merged(self, column: str, weight: str | None) -> str:
        """Merge partial rows; `weight` is how often each of them counts, by default once."""
        if self.kind == LONG:
            return low_of(column, weight)
        if self.kind == CARRY:
            return carry_of(self.low, weight, column)
        if weight is None:
            total = f"COALESCE(SUM({column}), {self._zero()})"
            return total if self.merge == "SUM" else extreme(self.merge, column, self.type)
        if self.merge == "SUM":
            return f"COALESCE(SUM({times(column, weight, self.kind)}), {self._zero()})"
        return extreme(self.merge, f"IF({weight} > 0, {column}, NULL)", self.type)

    def _zero(self) -> str:
        return f"CAST(0 AS {self.kind})" if self.kind.startswith("decimal") else "0"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a group shows a key of which a collation takes several spellings for equal.

    Spark shows the one that it meets first; here it is the least by bytes that is in the group.
    """

    key: str
    collation: str

    @property
    def accumulator(self) -> Accumulator:
        """The least spelling, as plain text."""
        least = f"MIN(({self.key} COLLATE UTF8_BINARY))"
        return Accumulator(f"__{self.key}_spelled", least, least, "MIN", "value")

    def over(self, prefix: str = "") -> str:
        """Render the key over accumulator columns; rows of older code only have the key."""
        least = f"{prefix}{self.accumulator.name}"
        return f"(COALESCE({least}, ({self.key} COLLATE UTF8_BINARY)) COLLATE {self.collation})"

    @property
    def shown(self) -> str:
        """Render the key over the rows of a group."""
        return f"({self.accumulator.plain} COLLATE {self.collation})"


@dataclass(frozen=True, slots=True)
class Finish:
    """How a call's result follows from accumulators; `{0}`, `{1}` stand for their columns."""

    name: str
    template: str
    uses: tuple[str, ...]
    parts: int = 1
    """How many of the last it uses are parts of its value: if all of them are positive, it is."""

    @property
    def signs(self) -> frozenset[str]:
        """Accumulators that show that the result is positive."""
        return frozenset(self.uses[-self.parts :])

    def over(self, prefix: str) -> str:
        """Render over accumulator columns with a prefix."""
        return self.template.format(*(f"{prefix}{name}" for name in self.uses))


def times(value: str, weight: str, kind: str) -> str:
    """Multiply a value by a weight without losing digits."""
    if kind == "floating":
        # Infinity times zero is not a number; a row that does not count adds nothing.
        return f"IF({weight} = 0, 0D, CAST({value} AS DOUBLE) * {weight})"
    if kind.startswith("decimal"):
        return decimal_product(value, weight, kind)
    return f"{value} * {weight}"


class Accumulators:
    """The accumulators of a set of calls, shared where they agree."""

    def __init__(
        self, calls: tuple[AggCall, ...], types: Mapping[str, str], keys: tuple[str, ...] = ()
    ) -> None:
        self._types = types
        self.spellings = tuple(
            Spelling(key, collation)
            for key in keys
            if (collation := collation_of(types[key])) is not None
        )
        self._by_partial: dict[tuple[str, str], Accumulator] = {}
        self._carries: dict[str, Accumulator] = {}
        self.rows = self._add(f"SUM({WEIGHT})", "SUM", "count", "COUNT(*)", COUNT)
        self.finishes = tuple(self._finish(call) for call in calls)

    @property
    def all(self) -> tuple[Accumulator, ...]:
        """All accumulators in a fixed order."""
        spellings = (each.accumulator for each in self.spellings)
        return (*self._by_partial.values(), *self._carries.values(), *spellings)

    @property
    def invertible(self) -> bool:
        """Whether retractions can simply be added in."""
        return all(each.invertible for each in self.all)

    @property
    def is_inexact(self) -> bool:
        """Whether merging the same partial rows again may give another last digit."""
        return any(each.kind == "floating" for each in self.all)

    def _add(
        self, partial: str, merge: str, kind: str, plain: str = "", name: str = "", type_: str = ""
    ) -> Accumulator:
        key = (partial, merge)
        if key not in self._by_partial:
            given = name or f"__a{len(self._by_partial)}"
            made = Accumulator(given, partial, plain or partial, merge, kind, type_)
            self._by_partial[key] = made
        return self._by_partial[key]

    def _extreme(self, function: str, value: str, kind: str) -> Accumulator:
        type_ = kind if is_coarse(kind) else ""
        return self._add(extreme(function, value, type_), function, "value", type_=type_)

    def _long_sum(self, column: str) -> tuple[Accumulator, Accumulator]:
        """The sum of a BIGINT, and how often it outgrew its type (`delta/long_sums.py`)."""
        low = self._add(low_of(column, WEIGHT), "SUM", LONG, low_of(column, None))
        carry = Accumulator(
            f"{low.name}_carry",
            carry_of(column, WEIGHT),
            carry_of(column, None),
            "SUM",
            CARRY,
            low=low.name,
        )
        return self._carries.setdefault(low.name, carry), low

    def _count(self, test: str) -> Accumulator:
        return self._add(
            f"SUM(IF({test}, {WEIGHT}, 0L))", "SUM", "count", f"COUNT(IF({test}, 1, NULL))"
        )

    def _count_values(self, column: str) -> Accumulator:
        partial = f"SUM(IF({column} IS NOT NULL, {WEIGHT}, 0L))"
        return self._add(partial, "SUM", "count", f"COUNT({column})")

    def _sum(self, column: str, kind: str = "") -> Accumulator:
        kind = kind or summed_kind(self._types[column])
        partial = times(column, WEIGHT, kind)
        zero = f"CAST(0 AS {kind})" if kind.startswith("decimal") else "0"
        value = column if kind == "integer" else f"CAST({column} AS {_SUMMED.get(kind, kind)})"
        return self._add(
            f"COALESCE(SUM({partial}), {zero})", "SUM", kind, f"COALESCE(SUM({value}), {zero})"
        )

    def _sum_of_parts(self, call: AggCall) -> Finish:
        """The sum of a decimal that may outgrow its type (`delta/decimal_sums.py`)."""
        column, kind = call.args[0], self._types[call.args[0]]
        low = self._sum(decimal_low_of(column, kind), summed_kind(kind))
        high = self._sum(high_of(column, kind), WHOLE)
        template = f"IF({{0}} = 0, NULL, {joined('{1}', '{2}', summed_kind(kind))})"
        return Finish(call.name, template, _names(self._count_values(column), low, high), 2)

    def _finish(self, call: AggCall) -> Finish:
        args = call.args
        match call.function:
            case "count_star":
                return Finish(call.name, "{0}", (COUNT,))
            case "count":
                return Finish(call.name, "{0}", (self._count_values(args[0]).name,))
            case "count_if":
                return Finish(call.name, "{0}", (self._count(args[0]).name,))
            case "sum" if self._types[args[0]] == "bigint":
                carried = (self._count_values(args[0]), *self._long_sum(args[0]))
                result = within_range("{2}", "{1}")
                return Finish(call.name, f"IF({{0}} = 0, NULL, {result})", _names(*carried))
            case "sum" if outgrows(self._types[args[0]]):
                return self._sum_of_parts(call)
            case "sum":
                uses = (self._count_values(args[0]), self._sum(args[0]))
                return Finish(call.name, "IF({0} = 0, NULL, {1})", _names(*uses))
            case "avg":
                return self._average(call)
            case "min" | "max":
                found = self._extreme(call.function.upper(), args[0], self._types[args[0]])
                return Finish(call.name, "{0}", (found.name,))
            case "min_by" | "max_by":
                merge = call.function[:3].upper()
                pair = f"IF({args[1]} IS NULL, NULL, NAMED_STRUCT('y', {args[1]}, 'x', {args[0]}))"
                value, by = (self._types[each] for each in args)
                # What it is by is not shown, so there equal is good enough.
                kind = f"struct<y:{by},x:{value}>" if is_coarse(value) else ""
                return Finish(call.name, "{0}.x", (self._extreme(merge, pair, kind).name,))
            case "bool_and" | "bool_or":
                yes, no = self._count(args[0]), self._count(f"NOT {args[0]}")
                test = "{1} = 0" if call.function == "bool_and" else "{0} > 0"
                return Finish(call.name, f"IF({{0}} + {{1}} = 0, NULL, {test})", _names(yes, no))
            case other:
                raise ValueError(f"{other} has no accumulators")

    def _average(self, call: AggCall) -> Finish:
        column = call.args[0]
        # Whole numbers without an end in sight: the sum may outgrow BIGINT.
        wide = WHOLE if self._types[column] == "bigint" else ""
        count, total = self._count_values(column), self._sum(column, wide)
        digits = digits_of(self._types[column])
        quotient = "CAST({1} AS DOUBLE) / {0}" if digits is None else decimal_quotient(*digits)
        return Finish(call.name, f"IF({{0}} = 0, NULL, {quotient})", _names(count, total))


def _names(*accumulators: Accumulator) -> tuple[str, ...]:
    return tuple(each.name for each in accumulators)


def summed_kind(kind: str) -> str:
    """Return the kind in which values of a Spark type are added up exactly."""
    if kind in _NARROW or kind == "bigint":
        return "integer"
    if kind in _FLOATING:
        return "floating"
    digits = digits_of(kind)
    if digits is None:
        raise ValueError(f"cannot add up {kind}")
    return f"decimal(38,{digits[1]})"


def mergeable(calls: tuple[AggCall, ...], types: Mapping[str, str]) -> bool:
    """Whether every call has accumulators for the types it is given."""
    return all(_has_rule(call, types) for call in calls)


def _has_rule(call: AggCall, types: Mapping[str, str]) -> bool:
    if call.function == "other":
        return False
    kinds = [types[arg] for arg in call.args]
    digits = digits_of(kinds[0]) if kinds else None
    if call.function == "avg" and digits is not None:
        return averages_exactly(*digits)
    if call.function in ("sum", "avg"):
        return kinds[0].startswith("decimal(") or kinds[0] in _NARROW | _FLOATING | {"bigint"}
    if call.function in ("min_by", "max_by"):
        # Ties are broken by the value, which must have an order for that.
        return not any("map<" in kind or kind == "variant" for kind in kinds)
    return True
