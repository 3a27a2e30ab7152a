"""Calls of SQL functions that users bring, with the body in the place of the call.

Law: with a parameter x of type T and a body b of type R, `f(a)` is
`CAST(b[x := CAST(a AS T)] AS R)`. That is what Spark computes for it, and a query keeps the
strategy that it has when written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from laminar.errors.user_functions import InvalidCall, InvalidFunction
from laminar.model.quoting import backquoted
from laminar.sql.calls import Call, calls_of
from laminar.sql.keywords import keywords
from laminar.sql.tokens import Kind, Token, tokenize

MOST_TEXT = 500_000
"""Characters that a query may grow to: functions that call functions twice double each time."""

_BEFORE_EXPRESSION = keywords(
    "SELECT DISTINCT ALL WHERE AND OR NOT BY HAVING ON WHEN THEN ELSE CASE IN LIKE ILIKE RLIKE"
    " REGEXP BETWEEN ESCAPE DIV FROM LIMIT OFFSET VALUES RETURN INTERVAL PLACING FOR SET QUALIFY"
    " ANY SOME ZONE EXTEND AGGREGATE IF BOTH LEADING TRAILING USING MATCH_CONDITION JOIN LATERAL"
)
_STARTS_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function, with the text of its default if it has one."""

    name: str
    type_text: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """What an expression needs to know of a function: its body calls no function of the user's."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str
    body: str


def called(query: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return which of some functions a query calls, each once, as they are given."""
    known = {name.upper(): name for name in names}
    tokens = tokenize(query)
    return tuple(dict.fromkeys(known[call.name] for call in _calls(tokens, known)))


def inlined(query: str, functions: Mapping[str, SqlFunction]) -> str:
    """Return a query without calls of these functions, which are given by name in capitals."""
    tokens = tokenize(query)
    kept, at, done = [], 0, 0
    for call in _calls(tokens, functions):
        if call.start < done:
            continue  # an argument of the one before, which took it in
        first, last = tokens[call.start], tokens[call.stop - 1]
        kept += [query[at : first.start], _written_out(query, tokens, call, functions)]
        at, done = last.end, call.stop
    text = "".join([*kept, query[at:]])
    if len(text) > MOST_TEXT and kept:
        raise InvalidCall(tokens[0].text, f"written out it has {len(text)} characters")
    return text


def _calls(tokens: Sequence[Token], names: Mapping[str, object]) -> Iterator[Call]:
    """Yield calls; a name with a bracket may also be an alias with columns."""
    if not names:
        return
    for call in calls_of(tokens, names):
        before = tokens[call.start - 1] if call.start else None
        if not (_ends_operand(before) or _names_a_query(tokens, call)):
            yield call


def _ends_operand(token: Token | None) -> bool:
    """Whether a token ends what an alias may follow; after a dot comes another kind of name."""
    if token is None or token.kind in (Kind.STRING, Kind.NUMBER):
        return False
    if token.kind is Kind.WORD:
        return token.upper not in _BEFORE_EXPRESSION
    return token.kind is Kind.QUOTED or token.text in (")", "]", ".")


def _names_a_query(tokens: Sequence[Token], call: Call) -> bool:
    """Whether `f(x)` begins an item of WITH: `f(x) AS (SELECT ...`."""
    after = [token.upper for token in tokens[call.stop : call.stop + 3]]
    return after[:2] == ["AS", "("] and after[2:] != [] and after[2] in _STARTS_QUERY


def _written_out(
    query: str, tokens: Sequence[Token], call: Call, functions: Mapping[str, SqlFunction]
) -> str:
    function = functions[call.name]
    given = _given(query, tokens, call, function)
    values = {
        each.name.casefold(): f"CAST({inlined(given[each.name], functions)} AS {each.type_text})"
        for each in function.parameters
    }
    return f"CAST({with_values(function, values)} AS {function.returns})"


def _given(
    query: str, tokens: Sequence[Token], call: Call, function: SqlFunction
) -> dict[str, str]:
    """Return parameter -> the text of its value; by place, then by name, then by default."""
    names = {each.name.casefold(): each.name for each in function.parameters}
    found: dict[str, str] = {}
    for place, (first, stop) in enumerate(call.arguments):
        if stop <= first:
            continue
        name = None
        if stop - first > 2 and tokens[first + 1].is_symbol("=>"):
            name, first = names.get(tokens[first].value.casefold()), first + 2
        elif place < len(function.parameters):
            name = function.parameters[place].name
        if tokens[stop - 1].is_symbol("*"):
            raise InvalidCall(function.name, "a star stands for several", "list the arguments")
        if name is None or name in found:
            raise InvalidCall(function.name, f"it takes {_signature(function)}")
        found[name] = query[tokens[first].start : tokens[stop - 1].end]
    for each in function.parameters:
        if each.name not in found and each.default is not None:
            found[each.name] = each.default
    if len(found) < len(function.parameters):
        raise InvalidCall(function.name, f"it takes {_signature(function)}")
    return found


def _signature(function: SqlFunction) -> str:
    listed = ", ".join(f"{each.name} {each.type_text}" for each in function.parameters)
    return f"({listed})"


def with_values(function: SqlFunction, values: Mapping[str, str]) -> str:
    """Return the body with values, by parameter in lower case, in the place of the parameters."""
    body, tokens = function.body, tokenize(function.body)
    own = _variables(function, tokens)
    kept, at = [], 0
    for place, token in enumerate(tokens):
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            continue
        name = token.value.casefold()
        start = _qualified(tokens, place, function.name)
        if name in own and start == place and _is_value(tokens, place):
            kept += [body[at : token.start], backquoted(f"__{function.name}_{token.value}")]
        elif name in values and (start < place or _is_value(tokens, place)):
            label = f" AS {backquoted(token.value)}" if _names_a_field(tokens, place) else ""
            kept += [body[at : tokens[start].start], values[name] + label]
        else:
            continue
        at = token.end
    return "".join([*kept, body[at:]])


def _variables(function: SqlFunction, tokens: Sequence[Token]) -> frozenset[str]:
    """Return the names that lambdas of a body give; they get names that no argument can use."""
    found: set[str] = set()
    for place, token in enumerate(tokens):
        if token.is_symbol("->"):
            at = place - 1
            found.add(tokens[at].value.casefold())
            while tokens[place - 1].is_symbol(")") and not tokens[at].is_symbol("("):
                found.add(tokens[at].value.casefold())
                at -= 1
    both = found & {each.name.casefold() for each in function.parameters}
    if both:
        why = f"{min(both)} is a parameter, and a variable of a lambda in its body"
        raise InvalidFunction(function.name, why, "give one of them another name")
    return frozenset(found - {")", ","})


def _qualified(tokens: Sequence[Token], place: int, function: str) -> int:
    """Return where a name begins, with the name of the function before it if that stands there."""
    if place >= 2 and tokens[place - 1].is_symbol("."):
        owner = tokens[place - 2]
        is_own = owner.kind in (Kind.WORD, Kind.QUOTED)
        if is_own and owner.value.casefold() == function.casefold():
            return place - 2
    return place


def _is_value(tokens: Sequence[Token], place: int) -> bool:
    """Whether a name stands for a value: it is no field, type, function, or name that is given."""
    before = tokens[place - 1] if place else None
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    if before is not None and (before.text in (".", "::") or before.is_word("AS")):
        return False
    is_call = after is not None and (after.is_symbol("(") or after.is_symbol("=>"))
    return not is_call and (after is None or after.kind is not Kind.STRING)


def _names_a_field(tokens: Sequence[Token], place: int) -> bool:
    """Whether a parameter stands alone in `struct(x)`, where Spark takes its name for the field."""
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    at = place - 1
    if after is None or after.text not in (",", ")") or at < 0 or tokens[at].text not in ("(", ","):
        return False
    depth = 0
    while at >= 0 and (depth or not tokens[at].is_symbol("(")):
        depth += tokens[at].is_symbol(")") - (depth > 0 and tokens[at].is_symbol("("))
        at -= 1
    return at > 0 and tokens[at - 1].is_word("STRUCT")
