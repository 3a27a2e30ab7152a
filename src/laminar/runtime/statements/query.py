"""Queries: every relation that one names is bound at one epoch, then Spark runs it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from laminar.delta.change import quote
from laminar.delta.program import Shape
from laminar.errors import (
    FunctionNotRegistered,
    NotSupported,
    SegmentMissing,
    SqlSyntaxError,
    UnknownRelation,
)
from laminar.model.quoting import string_literal
from laminar.runtime.catalog.function_definitions import UserFunctions
from laminar.runtime.history.differences import Differences
from laminar.runtime.history.table_changes import changed_rows, changed_shape
from laminar.runtime.history.timeline import Snapshot
from laminar.runtime.introspection.system import TABLES
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.bound_names import BoundNames
from laminar.runtime.relations.trace_versions import versions_of
from laminar.runtime.spark.error_translation import (
    SPARK_FAILS,
    explain_refusal,
    is_only_unfit_place,
    pointed,
)
from laminar.runtime.spark.fixed_settings import ASOF
from laminar.runtime.spark.session import suit
from laminar.runtime.spark.session_functions import SessionFunctions, known_functions
from laminar.runtime.statements.current_tables import CurrentTables
from laminar.sql import Query, parse_statement, relations_of, rewrite_windows
from laminar.sql.asof import has_asof, spell_out
from laminar.sql.parameters import Arguments, with_arguments
from laminar.sql.system import SYSTEM, name_system_tables, system_table
from laminar.sql.table_changes import ChangeRange, name_changes
from laminar.sql.time_travel import Past
from laminar.store import SegmentStore
from laminar.store.char_notes import as_chars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.engine.engine import Engine


_REMEMBERED = 256
"""So many texts of queries are not read again when they come again."""

_SHORT = 16_384
"""Longer texts are read each time: they hold rows, and hardly come twice."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What the text of a query says, whatever is defined when it runs.

    `spelled` is in words that Spark can run, `text` also has its changes under their own names.
    """

    spelled: str
    text: str
    ranges: tuple[ChangeRange, ...]
    relations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A query that Spark has analysed; nothing has run."""

    frame: DataFrame
    epoch: int
    shapes: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Bound:
    """A query in names that the session knows, and what they stand for."""

    text: str
    epoch: int
    shapes: Mapping[str, Shape]


class Reader:
    """One session in which queries run; whoever binds names in it holds the lock."""

    def __init__(self, engine: Engine, session: SparkSession, store: SegmentStore) -> None:
        self._engine = engine
        self.session = session
        self.store = store
        self.lock = threading.Lock()
        self.tables = CurrentTables(engine, session, store)
        self._called = SessionFunctions(session)
        self._has_called = False
        self._names = BoundNames(session)
        engine.env.functions.adopt(session)
        self._between = Differences(
            engine.ledger.timeline,
            engine.snapshot,
            lambda: engine.defined.settings.number("collect_limit_rows"),
            session,
            store,
        )

    def query(
        self,
        query: str,
        as_of_epoch: int | None = None,
        pasts: Sequence[Past] = (),
        *,
        current: bool = False,
    ) -> Answer:
        """Analyse a query over one consistent epoch of all relations it names.

        In one with `pasts` every relation says its own epoch. A `current` one sees all that is
        pending as well.
        """
        functions = self._engine.snapshot().catalog.functions
        with self.lock:

            def bind() -> Bound:
                if pasts:
                    return self._bind_pasts(query, pasts)
                return self.bind(query, as_of_epoch, current=current)

            try:
                bound = bind()
            except SegmentMissing:
                bound = bind()  # retention may have been faster; if not, it is missing now as well
            try:
                return Answer(self.session.sql(bound.text), bound.epoch, bound.shapes)
            except SPARK_FAILS as error:
                if is_only_unfit_place(error):
                    return self._answered_written_out(bound, functions)
                found = explain_refusal(error, bound.shapes, partial(known_functions, self.session))
                raise pointed(found, error, query, bound.text) from None
            finally:
                self._names.settle()

    def _answered_written_out(self, bound: Bound, functions: UserFunctions) -> Answer:
        """Analyse a query with the bodies of functions where Spark takes no call of them."""
        text = functions.expanded(bound.text)
        return Answer(self.session.sql(text), bound.epoch, bound.shapes)

    def _let_call(self, text: str) -> None:
        """Have the session know the functions of the user's that a query calls."""
        functions = self._engine.snapshot().catalog.functions
        if not functions.by_name and not self._has_called:
            return
        absent = functions.absent(self._engine.env.functions.names())
        for name, _ in functions.calls(text):
            if name in absent:
                raise FunctionNotRegistered(name)
        users = {name for each in absent for name in functions.users(each)}
        self._called.define(functions.without(users).statements())
        self._has_called = bool(functions.by_name)

    def _worded(self, query: str) -> Wording:
        asks = "asof" in query.lower()
        is_sparks = asks and str(self.session.conf.get(ASOF, "false")).lower() == "true"
        return worded(query, spells_asof=not is_sparks)

    def named(self, text: str, skip: Collection[str] = ()) -> list[str]:
        """Return the relations of the user's that a query names, apart from some."""
        found = self._worded(text)
        own = (*skip, *(each.bound for each in found.ranges))
        return _named(found.relations, self._engine.snapshot(), own)[0]

    def bind(
        self,
        query: str,
        as_of_epoch: int | None = None,
        skip: Collection[str] = (),
        *,
        current: bool = False,
    ) -> Bound:
        """Bind what a query names, except for relations that the caller binds itself.

        Those of a `current` one have their pending rows.
        """
        snapshot, found = self._engine.snapshot(), self._worded(query)
        self._let_call(found.spelled)
        text, ranges = found.text, found.ranges
        own = (*skip, *(each.bound for each in ranges))
        names, system = _named(found.relations, snapshot, own)
        if system and as_of_epoch is not None:
            raise NotSupported(
                f'"{SYSTEM}" as of an older epoch', "it describes the newest; leave AS OF EPOCH out"
            )
        epoch, bindings = bindings_at(
            self._engine, self.session, self.store, as_of_epoch, names, snapshot=snapshot
        )
        suit(self.session, changed=bindings.held_rows(names), held=0)
        committed = self.tables.at_epoch(names) if current else frozenset(names)
        for name in names:
            if name not in skip:
                self._engine.work.pruning.refuse_reading(name)
                is_all = name in committed or name in snapshot.catalog.programs
                frame = (
                    bindings.content(name)
                    if is_all
                    else self.tables.frame(name, bindings, snapshot)
                )
                chars = snapshot.catalog.shape(name).chars
                self._names.bind(name, as_chars(frame, chars))
        self._names.note(bindings.named)
        text, bound = name_system_tables(text, system) if system else (text, {})
        for table, name in bound.items():
            self._names.bind(name, self._system_frame(table, snapshot))
        shapes = {name.lower(): snapshot.catalog.shape(name) for name in names}
        for asked in ranges:
            last = as_of_epoch if asked.last is None else asked.last
            shape = self._bind_changes(replace(asked, last=last), snapshot)
            shapes[asked.bound.lower()] = shape
        shapes |= {f"{SYSTEM}.{table}": TABLES[table].shape for table in bound}
        return Bound(text, epoch, shapes)

    def _bind_changes(self, asked: ChangeRange, snapshot: Snapshot) -> Shape:
        """Bind what changed in a relation; return its columns."""
        if system_table(asked.relation) is not None:
            raise NotSupported(f'changes of "{SYSTEM}"', "it describes the newest epoch only")
        name = snapshot.catalog.resolve(asked.relation)
        self._engine.work.pruning.refuse_reading(name)
        shape = snapshot.catalog.shape(name)
        empty = self.store.frame(shape.stored, ())
        rows = changed_rows(self._between, self._engine.ledger.timeline, snapshot, asked, empty)
        self._names.bind(asked.bound, as_chars(rows, shape.chars))
        return changed_shape(shape)

    def _bind_pasts(self, query: str, pasts: Sequence[Past]) -> Bound:
        """Bind relations at epochs of their own, each under a name that holds both."""
        snapshot, text = self._engine.snapshot(), self._worded(query).spelled
        self._let_call(text)
        told = {past.bound.lower() for past in pasts}
        for each in relations_of(text):
            if each.lower() not in told:
                hint = "with several epochs, write AS OF EPOCH after each relation"
                raise NotSupported(f'"{each}" without an epoch', hint)
        shapes: dict[str, Shape] = {}
        for past in pasts:
            if system_table(past.relation) is not None:
                raise NotSupported(f'"{SYSTEM}" as of an older epoch', "it describes the newest")
            name = snapshot.catalog.resolve(past.relation)
            self._engine.work.pruning.refuse_reading(name)
            _, bindings = bindings_at(
                self._engine, self.session, self.store, past.epoch, [name], snapshot=snapshot
            )
            shapes[name.lower()] = shape = snapshot.catalog.shape(name)
            self._names.bind(past.bound, as_chars(bindings.content(name), shape.chars))
            self._names.note(bindings.named)
        return Bound(text, max(past.epoch for past in pasts), shapes)

    def _system_frame(self, name: str, snapshot: Snapshot) -> DataFrame:
        table = TABLES[name]
        frame = self.session.createDataFrame(table.arrow(self._engine, snapshot))
        if name != "materialized_views" or not snapshot.catalog.programs:
            return frame
        # Each count is a query inside the query, and one that nobody asks for never runs.
        cases = []
        for place, view in enumerate(snapshot.catalog.programs):
            # Each at its own epoch: a view that is behind has the rows it has.
            _, own = bindings_at(
                self._engine, self.session, self.store, None, [view], snapshot=snapshot
            )
            self._names.bind(f"__rows_{place}", own.content(view))
            self._names.note(own.named)
            cases.append(f"WHEN {string_literal(view)} THEN (SELECT COUNT(*) FROM __rows_{place})")
        self._names.bind("__views", frame)
        listed = [
            f"CASE name {' '.join(cases)} END AS rows" if column == "rows" else quote(column)
            for column, _ in table.columns
        ]
        return self.session.sql(f"SELECT {', '.join(listed)} FROM __views")


def asked(text: str, args: Arguments | None) -> Query:
    """Return the one query that a text holds; with arguments it is another one each time."""
    if args is None and len(text) <= _SHORT:
        return _parsed_once(text)
    return _parsed(text, args)


def worded(query: str, *, spells_asof: bool) -> Wording:
    """Return what a query says; the same text says the same, and is not read again.

    ASOF JOIN is spelled out, unless Spark is to join that way itself.
    """
    find = _worded_once if len(query) <= _SHORT else _worded
    return find(query, spells_asof)


def _parsed(text: str, args: Arguments | None = None) -> Query:
    text = with_arguments(text, args)
    statement = parse_statement(text)
    if not isinstance(statement, Query):
        error = SqlSyntaxError("this is not a query", hint="run other statements with execute")
        raise error.at(text, statement.location.offset)
    return statement


def _worded(query: str, spells_asof: bool) -> Wording:
    spelled = rewrite_windows(spell_out(query) if spells_asof and has_asof(query) else query)
    text, ranges = name_changes(spelled)
    return Wording(spelled, text, ranges, relations_of(text))


_parsed_once = lru_cache(_REMEMBERED)(_parsed)
_worded_once = lru_cache(_REMEMBERED)(_worded)


def bindings_at(
    engine: Engine,
    session: SparkSession,
    store: SegmentStore,
    epoch: int | None = None,
    names: Iterable[str] = (),
    *,
    snapshot: Snapshot | None = None,
) -> tuple[int, Bindings]:
    """Return all relations as they were at the newest epoch that the named ones have.

    With an epoch it is the newest up to that; the named relations and what they read must have
    been defined alike then.
    """
    snapshot = snapshot or engine.snapshot()
    names = list(names)
    manifest = snapshot.manifest
    if epoch is not None:
        manifest = engine.ledger.timeline.at(epoch, snapshot.upstream(names))
    relations = snapshot.relations_at(manifest)
    at = snapshot.reach(manifest, names)
    versions = versions_of(relations, manifest.traces, None if at == manifest.epoch else at)
    # An expression that is computed when read must not see rows that are gone: it may fail on them.
    careful = not relations.fused.isdisjoint(names)
    return at, Bindings(session, store, relations, versions, careful=careful)


def _named(
    relations: Iterable[str], snapshot: Snapshot, skip: Collection[str]
) -> tuple[list[str], list[str]]:
    """Divide what a query names into the user's relations and those of the system."""
    names, system = [], []
    for each in relations:
        table = system_table(each) if "." in each else None
        if each in skip and not snapshot.catalog.exists(each):
            continue
        if table is None:
            names.append(snapshot.catalog.resolve(each))
        elif table in TABLES:
            system.append(table)
        else:
            raise UnknownRelation(each, [f"{SYSTEM}.{known}" for known in TABLES])
    return names, system
