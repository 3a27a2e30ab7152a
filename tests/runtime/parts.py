"""Parts of an engine from a few lines of SQL: no engine is opened and no Spark is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Segment, Trace
from laminar.mv import MvState
from laminar.runtime.catalog.catalog import Catalog, Defined
from laminar.runtime.catalog.compile_view import Analyzer
from laminar.runtime.catalog.definitions import LateDefinition, ViewDefinition, to_json
from laminar.runtime.catalog.settings import Settings, TimeSettings
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.history.compactor import Compactor
from laminar.runtime.history.ledger import Contents, Ledger
from laminar.runtime.history.timeline import Snapshot
from laminar.runtime.scheduling.epoch_plan import EpochPlan
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.scheduling.view_progress import ViewProgress
from laminar.runtime.statements.dispatch import table_definition, view_definition
from laminar.sql import parse_script
from laminar.sql.statements import CreateTable, CreateView
from laminar.testing import FixedTyper, ManualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


class NoSpark:
    """Stands where a session or a store would be, and fails whoever asks anything of it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"{name} was asked of Spark")


NO_SPARK: Any = NoSpark()


def catalog(
    script: str,
    *,
    settings: Settings | None = None,
    typer: Analyzer | None = None,
    stored: Collection[str] = (),
    tapped: Collection[str] = (),
) -> Catalog:
    """Return the definitions of a script, compiled, with storage planned.

    Args:
        script: CREATE TABLE, SOURCE and MATERIALIZED VIEW.
        settings: defaults of the views' options.
        typer: tells types; by default one that has only names.
        stored: relations that have rows already.
        tapped: relations whose changes somebody outside wants.
    """
    found = Catalog(typer or FixedTyper())
    defaults = (settings or Settings()).text
    for statement in parse_script(script):
        if isinstance(statement, CreateTable):
            found.add_table(table_definition(statement))
        else:
            assert isinstance(statement, CreateView), statement
            add_view(found, view_definition(statement, defaults))
    found.relations = found.plan(
        stored=frozenset(stored), keep_fused=frozenset(), tapped=frozenset(tapped)
    )
    return found


@lru_cache(maxsize=64)
def _compiled(script: str, settings: tuple[tuple[str, str], ...]) -> Catalog:
    """Return the definitions of a script that many tests ask for; each changes a copy."""
    return catalog(script, settings=Settings(dict(settings)))


def add_view(found: Catalog, definition: ViewDefinition) -> None:
    """Define a view, and the relation that takes its late rows, as a statement does."""
    found.add_view(definition, found.compile(definition))
    late_to = definition.emission.late_to
    if late_to is not None:
        late = LateDefinition(late_to, definition.name)
        found.add_view(late, found.late_program(late))


def segment(lo: int, hi: int | None = None, rows: int = 1, **fields: Any) -> Segment:
    """Return a segment of some epochs, whose file is not there; rows are only inserted."""
    end = lo if hi is None else hi
    given = {"files": (f"data/{lo}-{end}",), "insert_only": True, "units": True, **fields}
    return Segment(lo=lo, hi=end, rows=rows, bytes=rows * 10, checksums=("",), **given)


def trace(*segments: Segment) -> Trace:
    """Return a trace of some segments."""
    return Trace("", segments)


def manifest(
    epoch: int = 0,
    traces: Mapping[str, Trace] | None = None,
    *,
    progress: ViewProgress | None = None,
    definitions: Catalog | None = None,
    **state: Any,
) -> Manifest:
    """Return what an epoch holds, as if it had been committed."""
    listed = [] if definitions is None else to_json(definitions.in_order())
    kept = replace((progress or ViewProgress()).saved(EngineState()), **state)
    return Manifest(epoch, traces or {}, {}, listed, {}, kept, START.isoformat())


def snapshot(found: Catalog, *args: Any, **given: Any) -> Snapshot:
    """Return definitions with an epoch that was committed with them; see `manifest`."""
    return Snapshot(manifest(*args, definitions=found, **given), found)


def ledger(root: Path, describe: Callable[[], Contents] | None = None) -> Ledger:
    """Return the books of a folder, of a database that says nothing but its rows."""
    made = Ledger(root, Compactor(NO_SPARK, NO_SPARK))
    nothing = Contents((), EngineState(), {})
    made.describe = lambda _epoch, _report: nothing if describe is None else describe()
    return made


class Parts:
    """Definitions, event time and scheduler, wired as an engine does, over a manifest in memory.

    Args:
        script: the definitions.
        epoch: the newest one.
        progress: where views stand.
        settings: what is SET, by name without prefix.
    """

    def __init__(
        self,
        script: str,
        *,
        epoch: int = 0,
        progress: ViewProgress | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.clock = ManualClock(START)
        chosen = Settings(settings)
        limits = TimeSettings(self.clock)
        compiled = _compiled(script, tuple(chosen.given.items())).copy()
        self.defined = Defined(compiled, chosen, limits)
        self._script, self._settings = script, settings
        self.manifest = manifest(epoch, progress=progress)
        self.time = EventTime(lambda: self.defined.catalog, limits)
        for each in self.defined.tables().values():
            self.time.watermarks.add(each)
        self.time.configure(self.defined.tables())
        self.scheduler = ViewScheduler(self.defined, lambda: self.manifest, self.clock)

    @property
    def catalog(self) -> Catalog:
        """What is defined."""
        return self.defined.catalog

    def reopened(self) -> Parts:
        """Return what a process finds that opens the database after this one, at the same time."""
        found = Parts(self._script, settings=self._settings)
        found.clock.advance((self.clock() - found.clock()) / 1000)
        state = self.scheduler.saved(self.time.saved(EngineState()))
        written = replace(self.manifest, watermarks=self.time.watermarks.current, state=state)
        found.manifest = Manifest.from_json(json.loads(json.dumps(written.to_json())))
        for view in state.paused:
            found.pause(view)
        found.time.restore(found.manifest)
        found.scheduler.restore()
        return found

    def pause(self, *views: str) -> None:
        """Pause views, as a user does."""
        for view in views:
            self.catalog.registry.set_state(view, MvState.PAUSED)

    def resume(self, *views: str) -> None:
        """Let views go on, as a user does."""
        for view in views:
            self.catalog.registry.set_state(view, MvState.RUNNING)

    def gate(self, *sources: str) -> None:
        """Let views see no new rows of these sources, but of all others."""
        self.scheduler.progress = replace(self.scheduler.progress, gated=frozenset(sources))

    def run(self, failing: Iterable[str] = (), forced: Collection[str] = ()) -> EpochPlan:
        """Commit an epoch in which some views fail, as the epoch runner does; return its plan."""
        scheduler, now = self.scheduler, self.clock()
        plan = scheduler.plan(now, forced)
        told = {view: "it was told to" for view in failing if view in plan.stepping()}
        readers = {name: self.catalog.registry.get_dependents(name) for name in plan.before}
        fallen = plan.falls_with(told, readers)
        if plan.passed_over(fallen):
            plan = scheduler.plan(now, forced, told)
            fallen = set()
        failed = scheduler.failed(told, now)
        progress = scheduler.after(plan, fallen, failed, now)
        with scheduler.counting(plan, fallen, failed), scheduler.with_progress(progress):
            state = scheduler.saved(EngineState())
            self.manifest = replace(self.manifest, epoch=plan.epoch, state=state)
        return plan
