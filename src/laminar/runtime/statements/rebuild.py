"""Building a view anew beside the epochs, which go on without it.

While it is built, the view is locked at its epoch, with its group and all that depend on it. Then
it is put in the place of the old one, and catches up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from laminar.delta.program import Program
from laminar.errors import NotSupported
from laminar.model.trace import Trace
from laminar.model.trace_name import partial_trace, pending_trace
from laminar.runtime.engine.level import level_turn
from laminar.runtime.epoch.executor import named_error
from laminar.runtime.epoch.materialization import Filler

if TYPE_CHECKING:
    from laminar.runtime.catalog.definitions import ViewDefinition
    from laminar.runtime.engine.engine import Engine


def rebuild(engine: Engine, old: ViewDefinition, new: ViewDefinition) -> None:
    """Give a view another way to be kept up to date; its rows are the same."""
    try:
        _rebuild(engine, old, new)
    except BaseException:
        engine.defined.catalog.declare([old.name])
        raise


def _rebuild(engine: Engine, old: ViewDefinition, new: ViewDefinition) -> None:
    name = old.name
    # Before it is another view: nobody could tell the sinks what they have missed of this one.
    with level_turn(engine, f"ALTER {name}", lambda: _told_of(engine, name)):
        _refuse_behind(engine, name)
        catalog, known = engine.defined.catalog.copy(), engine.defined.catalog.programs
        program = catalog.compile(new)
        catalog.replace_view(new, program)
        if program == known[name]:
            engine.defined.catalog.replace_view(new, program)
            engine.ledger.recommit()
            return
        at, epoch = engine.scheduler.cursor(name), engine.ledger.epoch
        traces = without(engine.ledger.manifest.traces, known, [name])
        catalog.relations = engine.work.materialization.planned(catalog, traces)
        # What it reads must hand on rows, where it will need them.
        engine.work.materialization.finish(
            catalog.relations.finished - engine.defined.catalog.parts(name)
        )
        traces = without(engine.ledger.manifest.traces, known, [name])
        epoch_time = engine.time.first(program, None if at == epoch else at)
    workspace = engine.env.workspace()
    filler = Filler(workspace.session, workspace.store, engine.work.full.run)
    with engine.scheduler.locked({name}), engine.ledger.pinning(epoch):
        try:
            filled = filler.fill(program, catalog.relations, traces, at, epoch_time)
        except Exception as error:
            raise named_error(name, error) from error
        made = {trace: each for trace, each in filled.items() if trace not in traces}
        with engine.ledger.turn(f"ALTER {name}"):
            _put(engine, old, new, program, made, at)


def _told_of(engine: Engine, name: str) -> list[str]:
    """Return the sinks that hear of a view, or of one that depends on it."""
    return engine.outputs.sinks.books.of(
        (name, *engine.defined.catalog.registry.all_dependents(name))
    )


def _put(
    engine: Engine,
    old: ViewDefinition,
    new: ViewDefinition,
    program: Program,
    made: dict[str, Trace],
    at: int,
) -> None:
    """Put a view that was built in the place of the old one."""
    name = old.name
    if engine.defined.catalog.definitions.get(name) is not old:
        raise NotSupported(f'changing "{name}", which was changed meanwhile', "say it again")
    with engine.changing(f"ALTER {name}", name):
        traces = (
            without(engine.ledger.manifest.traces, engine.defined.catalog.programs, [name]) | made
        )
        engine.defined.catalog.replace_view(new, program)
        engine.work.materialization.plan(traces)
        epoch, scheduler = engine.ledger.epoch, engine.scheduler
        progress = scheduler.progress.with_filled([name], at, epoch, engine.env.clock())
        with scheduler.with_progress(progress):
            engine.ledger.commit(epoch, traces, engine.ledger.manifest.offsets)


def _refuse_behind(engine: Engine, name: str) -> None:
    """Refuse if somebody still needs rows of a view from before it would be built."""
    scheduler = engine.scheduler
    for each in engine.defined.catalog.registry.all_dependents(name):
        if scheduler.cursor(each) < scheduler.cursor(name):
            hint = f"bring {each} up to date first (RESUME or REFRESH it)"
            raise NotSupported(f'rebuilding "{name}" while "{each}" is behind it', hint)


def without(
    traces: Mapping[str, Trace], programs: Mapping[str, Program], views: Iterable[str]
) -> dict[str, Trace]:
    """Return the traces without those of views."""
    own = {each.shape.name for view in views for each in programs[view].relations}
    gone = own | {partial_trace(name) for name in own} | {pending_trace(view) for view in views}
    return {name: trace for name, trace in traces.items() if name not in gone}
