"""What a table declares of its rows: lengths of text, generated columns, checks.

Law: a row comes in only if it keeps every rule of its table. New rows are completed and looked at
in one statement, rows that go are left as they are; whatever is wrong refuses the whole change.

VARCHAR(n) is as in Spark: blanks beyond the length are cut off, anything else there is too long.
CHAR(n) is that too, and what is shorter is filled up with blanks: what is stored has n characters.
A CHECK is broken by false alone: NULL is not known to break it. A generated column that is given
has to be given as it is generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from laminar.delta.change import columns, quote
from laminar.errors import (
    CheckViolated,
    GeneratedOtherwise,
    NonDeterministic,
    NotSupported,
    RuleBroken,
    TextTooLong,
)
from laminar.model.char_columns import text_length
from laminar.model.text_lengths import fitted, too_long
from laminar.model.trace import WEIGHT
from laminar.runtime.spark.error_translation import SPARK_FAILS, explain_refusal
from laminar.sql import forbidden_functions
from laminar.sql.nested_queries import holds_query
from laminar.sql.tokens import Kind, tokenize

if TYPE_CHECKING:
    from laminar.runtime.catalog.compile_view import Analyzer
    from laminar.runtime.catalog.definitions import TableDefinition

BROKEN = "__broken"
"""Which rule a row breaks, by its place among all; NULL if none."""

_NEW = f"{WEIGHT} > 0"
_CLOCK = ("now", "current_timestamp", "current_date", "localtimestamp", "curdate", "current_time")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A test that is true for rows which break it, and the error that says so."""

    broken_if: str
    error: RuleBroken


def completed(
    definition: TableDefinition,
    rows: str,
    hidden: tuple[str, ...] = (WEIGHT,),
    *,
    is_given: bool = True,
) -> str:
    """Return a query for weighted rows with their generated columns, and what each breaks.

    Args:
        definition: the table.
        rows: a query for all its columns and the hidden ones.
        hidden: columns beside those of the table; the weight is one of them.
        is_given: whether the values of generated columns are the user's, and not from before.
    """
    kinds, made = {name: kind for name, kind, _ in definition.columns}, dict(definition.generated)
    kept = ", ".join(hidden)
    cut = [f"{_cut(definition, name, quote(name))} AS {quote(name)}" for name in kinds]
    rows = f"SELECT {', '.join(cut)}, {kept} FROM ({rows})"
    given = "".join(f", {quote(name)} AS {_given(place)}" for place, name in enumerate(made))
    listed = [
        f"IF({_NEW}, {_cut(definition, name, value)}, {quote(name)}) AS {quote(name)}"
        if (value := _cast(made.get(name), kinds[name]))
        else quote(name)
        for name in kinds
    ]
    rows = f"SELECT {', '.join(listed)}, {kept}{given} FROM ({rows})"
    tests = "".join(
        f" WHEN {rule.broken_if} THEN {place}"
        for place, rule in enumerate(_rules(definition))
        if is_given or not isinstance(rule.error, GeneratedOtherwise)
    )
    broken = f"IF({_NEW}, CASE WHEN false THEN 0{tests} END, NULL)"
    return f"SELECT {columns(tuple(kinds))}, {kept}, {broken} AS {BROKEN} FROM ({rows})"


def kept(definition: TableDefinition, found: pa.Table) -> pa.Table:
    """Return the rows without what they break; raise if one breaks something."""
    broken = found.column(BROKEN)
    if broken.null_count < found.num_rows:
        place = pc.index(pc.is_valid(broken), True).as_py()
        rule = list(_rules(definition))[broken[place].as_py()]
        row = found.select(list(definition.shape.columns)).slice(place, 1).to_pylist()[0]
        raise rule.error.about_row(place + 1, row)
    return found.drop_columns([BROKEN])


def refuse_unfit_types(definition: TableDefinition, typer: Analyzer) -> None:
    """Raise if rows with a column of some type cannot be kept, or cannot be handed in."""
    if definition.chars and not typer.pads_chars():
        hint = "create the database in a session that leaves them as they are in Spark"
        raise NotSupported("CHAR(n) under settings of Spark that treat it otherwise", hint)
    declared = _lengths(definition)
    for name, plain, _ in definition.columns:
        kind = declared.get(name, plain)
        reason = typer.unfit(kind, pushed=definition.connector is None)
        if reason:
            raise NotSupported(f'"{name}" of type {kind.upper()}: {reason}', "choose another type")


def refuse_unfit_rules(definition: TableDefinition, typer: Analyzer) -> None:
    """Raise if an expression that a table declares cannot be computed for each of its rows."""
    kinds = {name: kind for name, kind, _ in definition.columns}
    made = dict(definition.generated)
    for name, value in definition.defaults:
        _refuse_chance(value, f"the default of {name}", definition.name, _CLOCK)
        _analysed(typer, f"SELECT {_cast(value, kinds[name])} AS c")
    plain = _row({name: kind for name, kind in kinds.items() if name not in made})
    for name, value in definition.generated:
        _refuse_chance(value, f"{name}", definition.name)
        _refuse_chars(value, f"{name}", definition)
        # As a condition: neither aggregates nor windows nor generators are one.
        test = f"SELECT 1 FROM ({plain}) WHERE {_cast(value, kinds[name])} IS NULL"
        _analysed(typer, test)
    for name, condition in definition.checks:
        _refuse_chance(condition, f"{name}", definition.name)
        _refuse_chars(condition, f"{name}", definition)
        _analysed(typer, f"SELECT 1 FROM ({_row(kinds)}) WHERE (\n{condition}\n)")


def default_values(definition: TableDefinition) -> str:
    """Return a query for one row: the default of every column that has one."""
    kinds = {name: kind for name, kind, _ in definition.columns}
    items = [f"{_cast(value, kinds[name])} AS {quote(name)}" for name, value in definition.defaults]
    return f"SELECT {', '.join(items)}"


def default_of(definition: TableDefinition, name: str) -> str:
    """Return the expression for a column that is not given."""
    value = dict(definition.defaults).get(name, "NULL")
    return f"(\n{value}\n)"


def instead(definition: TableDefinition, name: str, value: str) -> str:
    """Return what a value stands for: the keyword DEFAULT for the default of its column."""
    is_default = value.strip().upper() == "DEFAULT"
    return default_of(definition, name) if is_default else value


def refuse_generated(definition: TableDefinition, name: str) -> None:
    """Raise if a column that is always computed is to be set."""
    if name in dict(definition.generated):
        raise NotSupported(f'setting "{name}", which is generated', "leave it out: it is computed")


def _rules(definition: TableDefinition) -> Iterator[_Rule]:
    relation = definition.name
    for place, (name, value) in enumerate(definition.generated):
        given = _given(place)
        test = f"{given} IS NOT NULL AND NOT ({given} <=> {quote(name)})"
        yield _Rule(test, GeneratedOtherwise(relation, name, value))
    for name, kind in _lengths(definition).items():
        word, length = text_length(kind) or (kind, None)
        error = TextTooLong(relation, name, length, word if length is None else word.upper())
        yield _Rule(too_long(quote(name), kind), error)
    for name, condition in definition.checks:
        yield _Rule(f"NOT (\n{condition}\n)", CheckViolated(relation, name, condition))


def _given(place: int) -> str:
    return f"__given_{place}"


def _cut(definition: TableDefinition, name: str, value: str) -> str:
    """Return a value with the texts in it cut, or filled up, to their lengths."""
    kind = _lengths(definition).get(name)
    if kind is None:
        return value
    made = fitted(value, kind)
    if text_length(kind) is None:
        made = _cast(made, {column: kind for column, kind, _ in definition.columns}[name])
    return f"IF({_NEW}, {made}, {value})"


def _lengths(definition: TableDefinition) -> dict[str, str]:
    """Return column -> its type with the lengths of texts."""
    plain = {name: f"varchar({n})" for name, n in definition.lengths}
    return plain | dict(definition.shape.chars)


def _cast(value: str | None, kind: str) -> str:
    return "" if value is None else f"CAST((\n{value}\n) AS {kind})"


def _row(kinds: Mapping[str, str]) -> str:
    items = [f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in kinds.items()]
    return f"SELECT {', '.join(items) or '1'}"


def _refuse_chance(value: str, what: str, relation: str, allowed: tuple[str, ...] = ()) -> None:
    """Refuse what would be another value tomorrow; rows decide, and nothing else."""
    if holds_query(value):
        raise NotSupported(f"a subquery in {what} of {relation}", "use the columns of the row")
    for function, _ in forbidden_functions(value):
        if function not in allowed:
            raise NonDeterministic(function, relation, f"{what} of {relation}")


def _refuse_chars(value: str, what: str, definition: TableDefinition) -> None:
    """Refuse to compute with CHAR columns before they are any: comparisons would not be padded."""
    chars = {name.lower() for name, _ in definition.chars}
    named = next((each for each in tokenize(value) if each.value.lower() in chars), None)
    if named is not None and named.kind in (Kind.WORD, Kind.QUOTED):
        hint = "declare it VARCHAR(n), or leave the condition to a view"
        raise NotSupported(f"the CHAR column {named.text} in {what} of {definition.name}", hint)


def _analysed(typer: Analyzer, sql: str) -> None:
    try:
        typer.of_query(sql)
    except SPARK_FAILS as error:
        raise explain_refusal(error, {}, typer.functions) from None
