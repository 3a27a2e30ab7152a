"""Functions that users bring: expressions of SQL, and Python code by its name and type."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from laminar.errors import UnknownFunction
from laminar.errors.user_functions import InvalidFunction
from laminar.model.quoting import backquoted
from laminar.sql.function_calls import Parameter, SqlFunction, called, inlined

SQL = "SQL"
"""The language of a function whose body is an expression; others are kinds of Python code."""


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A function, in a form that a manifest can carry."""

    name: str
    language: str = SQL
    returns: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    sql: str = ""
    comment: str = ""
    type_json: str = ""
    """The type of what Python code returns, with all that a DDL string does not say."""
    version: int = 0
    """How often Python code of that name was replaced: rows of other code are other rows."""

    @property
    def is_sql(self) -> bool:
        """Whether its body is here, and not in a Python program."""
        return self.language == SQL

    @property
    def signature(self) -> str:
        """Name, parameters and type, as DESCRIBE shows them."""
        if not self.is_sql:
            return f"{self.name}(...) RETURNS {self.returns}"
        listed = ", ".join(_declared(each, each.name) for each in self.parameters)
        return f"{self.name}({listed}) RETURNS {self.returns}"


def _declared(parameter: Parameter, name: str) -> str:
    default = "" if parameter.default is None else f" DEFAULT {parameter.default}"
    return f"{name} {parameter.type_text}{default}"


def _behind_name(definition: FunctionDefinition, body: str) -> str:
    returns = f" RETURNS {definition.returns}" if definition.returns else ""
    listed = ", ".join(_declared(each, backquoted(each.name)) for each in definition.parameters)
    return f"({listed}){returns} RETURN {body}"


Calls = tuple[tuple[str, int], ...]
"""Functions that a query calls, directly or through others, each with its version."""


@dataclass(frozen=True, slots=True)
class UserFunctions:
    """All functions of a database; a change makes another one."""

    by_name: Mapping[str, FunctionDefinition] = field(default_factory=dict)
    """By name in lower case, in the order of definition."""

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> UserFunctions:
        """Read them back from a manifest."""
        found = (_definition(each) for each in data)
        return cls({each.name.lower(): each for each in found})

    def to_json(self) -> tuple[Mapping[str, Any], ...]:
        """Return them as plain values."""
        return tuple(asdict(each) for each in self.by_name.values())

    def get(self, name: str) -> FunctionDefinition | None:
        """Return a function by its name in any case."""
        return self.by_name.get(name.lower())

    def require(self, name: str) -> FunctionDefinition:
        """Return a function, or raise UnknownFunction."""
        found = self.get(name)
        if found is None:
            raise UnknownFunction(name, [each.name for each in self.by_name.values()])
        return found

    def with_one(self, definition: FunctionDefinition) -> UserFunctions:
        """Return these and another one, or another one of its name."""
        return UserFunctions({**self.by_name, definition.name.lower(): definition})

    def without(self, names: Iterable[str]) -> UserFunctions:
        """Return these without some."""
        gone = {each.lower() for each in names}
        return UserFunctions({key: each for key, each in self.by_name.items() if key not in gone})

    def expanded(self, query: str) -> str:
        """Return a query that calls functions of Python code alone; the others are written out."""
        return inlined(query, self._written_out()) if self.by_name else query

    def body(self, definition: FunctionDefinition) -> str:
        """Return the body of a function of SQL, with the functions that it calls written out."""
        return self.without([definition.name]).expanded(definition.body)

    def statements(self) -> dict[str, str]:
        """Return what defines each function of SQL behind its name, as Spark is told of it."""
        return {
            each.name: _behind_name(each, self.body(each))
            for each in self.by_name.values()
            if each.is_sql
        }

    def told(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what Spark's analyzer is told: functions of SQL, and types of Python code."""
        known = self.by_name.values()
        return self.statements(), {each.name: each.type_json for each in known if not each.is_sql}

    def sql_function(self, definition: FunctionDefinition) -> SqlFunction:
        """Return what writing a call out needs of a function."""
        return SqlFunction(
            definition.name, definition.parameters, definition.returns, self.body(definition)
        )

    def calls(self, query: str) -> Calls:
        """Return what a query calls, and what that calls."""
        found: dict[str, int] = {}
        waiting = list(called(query, self.by_name))
        while waiting:
            each = self.by_name[waiting.pop()]
            if each.name not in found:
                found[each.name] = each.version
                waiting += called(each.body, self.by_name) if each.is_sql else ()
        return tuple(sorted(found.items()))

    def absent(self, registered: Collection[str]) -> tuple[str, ...]:
        """Return functions of Python code whose code is not here; given are names in lower case."""
        known = self.by_name.items()
        return tuple(e.name for key, e in known if not e.is_sql and key not in registered)

    def users(self, name: str) -> tuple[str, ...]:
        """Return the functions that call one, directly or through others, in order."""
        return tuple(
            each.name
            for each in self.by_name.values()
            if each.name.lower() != name.lower()
            and any(one.lower() == name.lower() for one, _ in self.calls(each.body))
        )

    def refuse_circle(self, definition: FunctionDefinition) -> None:
        """Raise if a function would call itself, directly or through others."""
        own = definition.name.lower()
        if any(name.lower() == own for name, _ in self.calls(definition.body)):
            why = "it calls itself"
            raise InvalidFunction(definition.name, why, "write the recursion as a view")

    def _written_out(self) -> dict[str, SqlFunction]:
        """Return all functions of SQL by name in capitals, each with a body that calls none."""
        found: dict[str, SqlFunction] = {}
        for each in self._inner_first():
            body = inlined(each.body, found)
            found[each.name.upper()] = SqlFunction(each.name, each.parameters, each.returns, body)
        return found

    def _inner_first(self) -> list[FunctionDefinition]:
        """Return the functions of SQL so that each comes after those it calls."""
        done: dict[str, FunctionDefinition] = {}

        def visit(definition: FunctionDefinition) -> None:
            if definition.name in done or not definition.is_sql:
                return
            for name in called(definition.body, self.by_name):
                visit(self.by_name[name])
            done[definition.name] = definition

        for each in self.by_name.values():
            visit(each)
        return list(done.values())


def _definition(data: Mapping[str, Any]) -> FunctionDefinition:
    given = dict(data)
    given["parameters"] = tuple(Parameter(**each) for each in given.get("parameters", ()))
    return FunctionDefinition(**given)
