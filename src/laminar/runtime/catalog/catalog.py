"""The definitions of a database, compiled: tables, views, their programs and their DAG."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from laminar.connectors.source import Source
from laminar.dag import StreamingDag
from laminar.delta.program import Late, Program, Shape
from laminar.errors import DuplicateName, NotSupported, OperatorNotFound, UnknownRelation
from laminar.model.char_columns import Chars
from laminar.model.event_time import Timing
from laminar.mv import MaterializedView, MvRegistry
from laminar.runtime.catalog.compile_view import Analyzer, RefreshPolicy, Surroundings, define_view
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
    timing_of,
)
from laminar.runtime.catalog.function_definitions import UserFunctions
from laminar.runtime.catalog.settings import Settings, TimeSettings
from laminar.runtime.catalog.storage_plan import BaseTable, Relation, StoragePlan
from laminar.runtime.catalog.user_schemas import UserSchemas
from laminar.sql.schemas import Names

AnyView: TypeAlias = ViewDefinition | OperatorDefinition | LateDefinition


@dataclass(slots=True)
class Catalog:
    """What is defined now. Changing it never touches data; the engine does that first."""

    typer: Analyzer
    registry: MvRegistry = field(default_factory=MvRegistry)
    definitions: dict[str, Definition] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    relations: StoragePlan = field(default_factory=StoragePlan)
    functions: UserFunctions = field(default_factory=UserFunctions)
    schemas: UserSchemas = field(default_factory=UserSchemas)
    max_fan_out: int = 1024  # a table may have many views; the limit of 8 is for hand-built DAGs
    _dag: StreamingDag | None = None

    @property
    def dag(self) -> StreamingDag:
        """The topology, built once per change of definitions."""
        if self._dag is None:
            self._dag = StreamingDag.from_mv_registry(self.registry, max_fan_out=self.max_fan_out)
        return self._dag

    def resolve(self, name: str) -> str:
        """Return a relation's identity as it was defined; names are found whatever their case."""
        for known in self.definitions:
            if known.lower() == name.lower():
                return known
        raise UnknownRelation(name, list(self.definitions))

    def names(self, current: str) -> Names:
        """Return what written names stand for while a schema is the current one."""
        return Names(current, self.schemas.names, self.schemas.strange(self.definitions))

    def exists(self, name: str) -> bool:
        """Whether a table or view of that name is defined."""
        return any(known.lower() == name.lower() for known in self.definitions)

    def shape(self, name: str) -> Shape:
        """Return name, columns and types of a relation."""
        definition = self.definitions[name]
        if isinstance(definition, TableDefinition):
            return definition.shape
        return self.programs[name].output.shape

    def parts(self, view: str) -> frozenset[str]:
        """Return the relations that a view is kept in."""
        return frozenset(each.shape.name for each in self.programs[view].relations)

    def shapes(self) -> dict[str, Shape]:
        """Return all shapes by lower-case name."""
        return {name.lower(): self.shape(name) for name in self.definitions}

    def add_table(self, definition: TableDefinition) -> None:
        """Define a table or source; what is compiled from now on can read it."""
        self.refuse_duplicate(definition.name)
        self.registry.register_base_table(definition.name)
        self.typer.declare(definition.shape, numbered=True)
        self.definitions[definition.name] = definition
        self._dag = None

    def copy(self) -> Catalog:
        """Return definitions of the same content that can change on their own."""
        return replace(
            self,
            registry=copy.deepcopy(self.registry),
            definitions=dict(self.definitions),
            programs=dict(self.programs),
        )

    def declare(self, views: Iterable[str]) -> None:
        """Make the columns of views known to the analyzer again."""
        for name in views:
            if name in self.programs:
                for relation in self.programs[name].relations:
                    self.typer.declare(relation.shape)

    def declare_all(self) -> None:
        """Make everything known to an analyzer that has forgotten it."""
        self.typer.let_call(*self.functions.told())
        for definition in self.definitions.values():
            if isinstance(definition, TableDefinition):
                self.typer.declare(definition.shape, numbered=True)
            else:
                self.typer.declare(self.shape(definition.name))
        self.declare(self.programs)

    def limit_fan_out(self, limit: int) -> None:
        """Allow so many readers of one relation; raise if one has more already."""
        if limit != self.max_fan_out:
            self.max_fan_out, self._dag = limit, None
            _ = self.dag

    def primary_keys(self) -> dict[str, tuple[str, ...]]:
        """Return the primary key of every table; () if it has none."""
        return {
            name: each.primary_key
            for name, each in self.definitions.items()
            if isinstance(each, TableDefinition)
        }

    def in_order(self) -> dict[str, Definition]:
        """Return the definitions so that each comes after what it reads."""
        return {
            name: self.definitions[name]
            for name in (*self.registry.base_tables(), *self.registry.topo_order())
        }

    def outline(self) -> dict[str, dict[str, Any]]:
        """Return of every view what can only be told with Spark: for readers that have none."""
        return {
            name: {
                "columns": list(
                    zip(program.output.shape.columns, program.output.shape.types, strict=True)
                ),
                "reads": list(program.sources()),
                "strategy": program.strategy.value,
            }
            for name, program in self.programs.items()
        }

    def compile(self, definition: ViewDefinition, *, is_stored: bool = False) -> Program:
        """Compile a view without adding it; `is_stored` if that has been done before."""
        self.typer.let_call(*self.functions.told())
        made = define_view(
            definition.name,
            definition.query,
            RefreshPolicy(definition.refresh_policy),
            Surroundings(self.shapes(), self.typer, self.timings(), self._tables()),
            definition.emission,
            is_stored=is_stored,
            written_out=definition.expanded,
        )
        return made.stored_whole() if self.python_calls(definition) else made

    def expanded(self, definition: ViewDefinition) -> ViewDefinition:
        """Return a view with its query written out: without calls of functions of SQL."""
        text, calls = (
            self.functions.expanded(definition.query),
            self.functions.calls(definition.query),
        )
        return replace(definition, expanded=text if calls else "", calls=calls)

    def python_calls(self, definition: Definition) -> tuple[str, ...]:
        """Return the functions of Python code that a view calls."""
        calls = definition.calls if isinstance(definition, ViewDefinition) else ()
        found = (self.functions.get(name) for name, _ in calls)
        return tuple(each.name for each in found if each is not None and not each.is_sql)

    def callers(self, function: str) -> tuple[str, ...]:
        """Return the views that call a function, directly or through others, in order."""
        return tuple(
            name
            for name, each in self.in_order().items()
            if isinstance(each, ViewDefinition)
            and any(called.lower() == function.lower() for called, _ in each.calls)
        )

    def late_program(self, definition: LateDefinition) -> Program:
        """Return the program of a relation that takes a view's late rows."""
        late = self.programs[definition.view].late
        assert late is not None
        shape = replace(late.shape, name=definition.name, chars=self._chars_of_rows(late))
        reads = (*late.reads, definition.view)
        return Program(definition.name, (replace(late, shape=shape, reads=reads),))

    def _chars_of_rows(self, late: Late) -> Chars:
        """Return which columns of late rows are CHAR: those of the relation whose rows they are."""
        wanted = set(late.shape.columns)
        shapes = [self.shape(name) for name in late.reads if name in self.definitions]
        found = {each.chars for each in shapes if wanted <= set(each.columns)}
        if len(found) > 1:
            raise NotSupported("LATE DATA TO of relations with other CHAR columns", "leave it out")
        known = dict(next(iter(found), ()))
        return tuple((name, known[name]) for name in late.shape.columns if name in known)

    def timings(self) -> dict[str, Timing]:
        """Return which columns of every relation carry event time."""
        found: dict[str, Timing] = {}
        for name, each in self.definitions.items():
            if isinstance(each, TableDefinition):
                found[name] = timing_of(each)
            else:
                found[name] = self.programs[name].timing
        return found

    def _tables(self) -> frozenset[str]:
        return frozenset(
            name.lower()
            for name, each in self.definitions.items()
            if isinstance(each, TableDefinition)
        )

    def add_view(self, definition: AnyView, program: Program) -> None:
        """Define a compiled view; all that it reads is defined already."""
        shape = program.output.shape
        self.registry.register(
            MaterializedView(definition.name, _text(definition), program.sources())
        )
        self.definitions[definition.name] = definition
        self.programs[definition.name] = program
        self._dag = None
        try:
            _ = self.dag
        except Exception:
            self.remove(definition.name)
            raise
        self.typer.declare(shape)

    def replace_view(self, definition: AnyView, program: Program) -> None:
        """Give a view another definition; it keeps its place and its readers."""
        old = self.registry.view(definition.name)
        self.registry.replace(
            replace(old, sql=_text(definition), sources=program.sources(), schema=None)
        )
        self.definitions[definition.name] = definition
        self.programs[definition.name] = program
        self._dag = None
        _ = self.dag

    def remove(self, name: str) -> None:
        """Forget a definition that nothing reads."""
        if isinstance(self.definitions[name], TableDefinition):
            self.registry.drop_base_table(name)
        else:
            self.registry.drop(name)
            del self.programs[name]
        del self.definitions[name]
        self._dag = None

    def plan(
        self, *, stored: frozenset[str], keep_fused: frozenset[str], tapped: frozenset[str]
    ) -> StoragePlan:
        """Decide anew which relations keep rows."""
        listed: list[Relation] = []
        for definition in self.definitions.values():
            if isinstance(definition, TableDefinition):
                listed.append(BaseTable(definition.shape, event_time=definition.event_time))
        for name in self.registry.topo_order():
            listed.extend(self.programs[name].relations)
            if self.python_calls(self.definitions[name]):
                tapped |= {name}  # whoever reads it must not need the code
        return StoragePlan.plan(listed, stored=stored, tapped=tapped, keep_fused=keep_fused)

    def refuse_new(self, name: str) -> None:
        """Raise if nothing new may be called so: the name is taken, or its schema is gone."""
        self.refuse_duplicate(name)
        self.schemas.require(name)

    def refuse_duplicate(self, name: str) -> None:
        """Raise DuplicateName if the name is taken, in whatever case."""
        if self.exists(name):
            raise DuplicateName(name)


def _text(definition: AnyView) -> str:
    return definition.query if isinstance(definition, ViewDefinition) else ""


@dataclass(slots=True)
class Defined:
    """Whoever changes it has the writer's turn.

    A change of definitions works on a copy of the catalog and replaces it as a whole, so whoever
    keeps this sees definitions of one kind: those before, or those after.
    """

    catalog: Catalog
    settings: Settings
    time_settings: TimeSettings
    sources: dict[str, Source] = field(default_factory=dict)
    """Table -> the connector that its rows come from."""
    operators: dict[str, Any] = field(default_factory=dict)
    """View -> the object of Python code that maintains it."""

    @property
    def call_timeout_ms(self) -> int:
        """How long a call into a connector may take whose source does not say."""
        return self.settings.number("call_timeout_ms")

    def tables(self) -> dict[str, TableDefinition]:
        """Return the tables and sources."""
        return {
            name: each
            for name, each in self.catalog.definitions.items()
            if isinstance(each, TableDefinition)
        }

    def require_attached(self) -> None:
        """Refuse to run while an operator of Python code is missing; a source is only away."""
        for name, each in self.catalog.definitions.items():
            if isinstance(each, OperatorDefinition) and name not in self.operators:
                raise OperatorNotFound(name)
