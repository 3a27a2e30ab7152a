"""An engine on a state that was recovered: what is left to do before anybody uses it."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from laminar.bridge.spill import SPILL
from laminar.checkpoint import CheckpointStorage, RecoveryConfig, aside
from laminar.checkpoint.aside import SET_ASIDE
from laminar.checkpoint.fingerprint import changed, without
from laminar.checkpoint.in_flight import IN_FLIGHT
from laminar.checkpoint.recovery import DagRecoveryManager, Recovered, damaged_manifests, restored
from laminar.checkpoint.recovery_report import DagRecoveryMetrics, RecoveryWarning
from laminar.checkpoint.restore import Restored, go_back, load, numbers
from laminar.checkpoint.storage import CHECKPOINTS
from laminar.connectors.source import Source
from laminar.delta.program import Applied
from laminar.errors import LaminarError, NotSupported, OperatorError, RecoveryFailed, SparkLost
from laminar.errors.secrets import traceback_of
from laminar.model.trace import Manifest
from laminar.runtime.catalog.definitions import (
    OperatorDefinition,
    TableDefinition,
    from_json,
    to_json,
)
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.engine.call_all import call_all
from laminar.runtime.engine.open import attach_operator, define
from laminar.runtime.engine.outdated import outdated
from laminar.runtime.history.ledger import INTERRUPTS
from laminar.runtime.history.timeline import Snapshot
from laminar.runtime.ingest.connector_building import build_source, shut
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.spark.session import fixed_settings
from laminar.runtime.spark.statement_cache import LINKS
from laminar.store import ManifestStore
from laminar.store.cursors import SINKS, SUBSCRIPTIONS
from laminar.store.lock import LOCK
from laminar.store.manifests import MANIFESTS
from laminar.store.pending import PENDING
from laminar.store.private import tighten
from laminar.store.segments import DATA
from laminar.store.wal import WAL

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog
    from laminar.runtime.engine.engine import Engine

_LOG = logging.getLogger("laminar.recovery")

Definitions = Literal["then", "current"]

PARTS = (
    *(DATA, MANIFESTS, WAL, PENDING, LINKS, LOCK, SINKS, SUBSCRIPTIONS),
    *(CHECKPOINTS, IN_FLIGHT, SET_ASIDE, SPILL),
)
"""What a database has in its folder."""


def recover(root: Path, config: RecoveryConfig | None) -> Recovered:
    """Put the newest whole state into place, or that of the checkpoint which is asked for.

    One of an older version is closed to others first.
    """
    tighten(root, PARTS)
    chosen = config.mode.checkpoint_id if config is not None else None
    try:
        return DagRecoveryManager(root, config).recover()
    except RecoveryFailed:
        if chosen is None:
            raise
    # Nobody can tell sinks what changes for them, so they are left out.
    storage = CheckpointStorage(root)
    checkpoint = load(storage, chosen)
    state = replace(checkpoint[1].state, sinks=())
    done = go_back(root, storage, ManifestStore(root), checkpoint, state=state)
    aside.move(root.resolve(), damaged_manifests(root), done.set_aside)
    found = checkpoint[0]
    metrics = DagRecoveryMetrics(
        found.checkpoint_id,
        found.source_offsets,
        len(restored(done.manifest)),
        epoch=done.epoch,
        source="checkpoint",
        set_aside=str(done.set_aside),
    )
    return Recovered(metrics)


def complete(
    engine: Engine, found: Recovered, config: RecoveryConfig | None = None
) -> DagRecoveryMetrics:
    """Rebuild and replay what recovery left open; return what was done in all."""
    started = time.perf_counter()
    rebuilt = rebuild(engine, found.rebuild)
    replayed = replay(engine)
    left = tuple(each.epoch for each in engine.ledger.wal.open_after(engine.ledger.epoch))
    metrics = replace(
        found.metrics,
        rebuilt=rebuilt,
        replayed=replayed,
        to_replay=left,
        duration=found.metrics.duration + time.perf_counter() - started,
    )
    chosen = config.mode.checkpoint_id if config is not None else None
    if chosen is not None and metrics.checkpoint_id != chosen:
        went = restore(engine, chosen)
        metrics = replace(
            metrics,
            checkpoint_id=chosen,
            source="checkpoint",
            epoch=went.epoch,
            set_aside=str(went.set_aside),
            source_offsets=engine.ledger.manifest.offsets,
        )
    if missed := metrics.missed():
        _LOG.warning(missed)
    if told := metrics.told():
        warnings.warn(told, RecoveryWarning, stacklevel=5)
    return metrics


def rebuild(engine: Engine, empty: tuple[str, ...]) -> tuple[str, ...]:
    """Fill views that recovery left empty, and those that were stored by another plan."""
    catalog, traces = engine.defined.catalog, engine.ledger.manifest.traces
    views = {*empty, *outdated(catalog, traces)}
    known = [name for name in catalog.in_order() if name in views]
    if known:
        with engine.ledger.turn("rebuilding views"):
            kept, work = without(traces, known), engine.work.materialization
            work.fill_and_commit(known, work.with_rows(kept, known))
    return tuple(known)


def replay(engine: Engine) -> tuple[int, ...]:
    """Run the epochs that were logged and not committed, with the same numbers and rows.

    Those that need objects of Python code wait for them; one that fails is an ordinary epoch that
    failed, and whoever steps next hears of it.
    """
    done: list[int] = []
    with engine.ledger.turn("replay"):
        while engine.ledger.wal.open_after(engine.ledger.epoch):
            logged = engine.ledger.wal.open_after(engine.ledger.epoch)[0]
            if engine.returns.are_gone(logged.ranges, logged.epoch):
                break  # who has the source may hand it in yet
            try:
                engine.defined.require_attached()
                report = engine.step()
            except OperatorError as error:
                report = error.report  # committed for all other views
                if report is None:
                    break
            except LaminarError:
                break
            if report is not None:
                done.append(report.epoch)
    return tuple(done)


def restore(engine: Engine, checkpoint_id: int, definitions: Definitions = "then") -> Restored:
    """Go back to what a checkpoint holds, as the next epoch.

    Args:
        engine: what goes back.
        checkpoint_id: where to.
        definitions: those of the checkpoint, or the current ones: views that were defined alike
            then keep the rows they had, the others are built anew.
    """
    what = f"RESTORE {checkpoint_id}"
    engine.ledger.turn.refuse_inside(what)
    built = _new_sources(engine, checkpoint_id) if definitions == "then" else {}
    ends: list[Callable[[], object]] = []
    try:
        # Sinks that are behind go on across it: what they have not taken yet stays kept for them.
        with INTERRUPTS.until_done(), engine.outputs.sinks.books.held(), engine.ledger.turn(what):
            done = _restore(engine, checkpoint_id, definitions, built, ends)
    except BaseException:
        with suppress(Exception):  # why it could not go back is what counts
            call_all([*ends, *_closing(built)])
        raise
    sinks, waits = engine.outputs.sinks, engine.outputs.sinks.waits
    call_all([*ends, *_closing(built), waits.close_retired, sinks.open, waits.settle])
    return done


def _closing(built: Mapping[str, Source]) -> list[Callable[[], object]]:
    return [partial(shut, name, each) for name, each in built.items()]


def _new_sources(engine: Engine, checkpoint_id: int) -> dict[str, Source]:
    """Build the connectors of tables that are not there now, or are declared otherwise.

    Empty if there is no such checkpoint; whoever loads it says so.
    """
    storage = engine.work.checkpoints.storage
    if checkpoint_id not in storage.ids():
        return {}
    now, found = engine.defined.tables(), dict[str, Source]()
    try:
        for each in from_json(storage.manifest(checkpoint_id).catalog):
            if isinstance(each, TableDefinition) and not _is_alike(each, now.get(each.name)):
                source = build_source(each, engine.defined.call_timeout_ms)
                if source is not None:
                    found[each.name] = source
    except Exception:
        with suppress(Exception):  # why one could not be built is what counts
            call_all(_closing(found))
        raise
    return found


def _is_alike(one: TableDefinition, other: TableDefinition | None) -> bool:
    """Whether the connector of one table would do for another."""
    if other is None:
        return False
    same = (one.connector, dict(one.options), one.schema)
    return same == (other.connector, dict(other.options), other.schema)


def _restore(
    engine: Engine,
    checkpoint_id: int,
    definitions: Definitions,
    built: dict[str, Source],
    ends: list[Callable[[], object]],
) -> Restored:
    """Go back, in the turn.

    Args:
        engine: what goes back.
        checkpoint_id: where to.
        definitions: which to go on with.
        built: connectors that it may use, and then takes out.
        ends: gets what is to be closed when the turn is over.
    """
    # First: one that is completed may end the life of an older one.
    engine.work.checkpoints.settle()
    checkpoint = load(engine.work.checkpoints.storage, checkpoint_id)
    _, manifest = checkpoint
    engine.ledger.compactor.adopt({}, wait=True)
    current = to_json(engine.defined.catalog.in_order())
    kept = current if definitions == "current" else None
    if kept is not None:
        _refuse_lost(manifest.catalog, kept)
    now = engine.defined.catalog.functions.to_json()
    functions = manifest.state.functions if kept is None else now
    schemas = engine.defined.catalog.schemas.to_json()
    sinks = _sinks(engine, manifest.state.sinks, current, kept or manifest.catalog)
    # Rows that somebody pushes meanwhile wait: those that are there are set aside, and replaced.
    with engine.ledger.pending.held(engine.ledger.turn.patience):
        ways = [engine.work.inlets.ways.forget(name) for name in engine.defined.tables()]
        ends += [way for way in ways if way is not None]
        INTERRUPTS.hold()
        done = go_back(
            engine.env.root,
            engine.work.checkpoints.storage,
            engine.ledger.timeline.store,
            checkpoint,
            state=replace(
                manifest.state,
                settings=engine.defined.settings.given,
                # Of an older format, it would not say under which its rows are gone on with.
                spark=fixed_settings(engine.env.spark).values,
                sinks=sinks,
                functions=functions,
                schemas=manifest.state.schemas if kept is None else schemas,
            ),
            catalog=kept,
        )
        engine.ledger.wal.forget_through(done.epoch)
        engine.ledger.timeline.adopt(done.manifest)
        engine.ledger.pending.reload(numbers(done.manifest))
        engine.ledger.finish_restore()
        # Somebody may have asked for a way in that stands where it stood before.
        ways = [engine.work.inlets.ways.forget(name) for name in engine.defined.tables()]
        ends += [way for way in ways if way is not None]
    follow = partial(
        _go_on_from, engine, engine.defined.catalog, done.manifest, built=built, ends=ends
    )
    try:
        follow()
    except Exception as error:
        told = traceback_of(error)
        _LOG.warning("a restore is committed, memory could not follow; trying again: %s", told)
        with suppress(SparkLost):
            engine.env.lifeline.check([error])
        _follow_or_close(engine, follow)
    rebuild(engine, done.rebuild)
    return done


def _follow_or_close(engine: Engine, follow: Callable[[], None]) -> None:
    """Let memory follow the disk; if it cannot, nobody may write from it any more."""
    try:
        engine.have_spark()  # in the place of one that is lost; a caller's cannot be replaced
        follow()
    except BaseException:
        engine.ledger.turn.close()
        raise


def _go_on_from(
    engine: Engine,
    before: Catalog,
    manifest: Manifest,
    built: dict[str, Source],
    ends: list[Callable[[], object]],
) -> None:
    """Let an engine that runs go on from another manifest; objects of Python code stay with it.

    Connectors of tables that are declared as before stay, too; `ends` gets what closes the others.
    """
    engine.work.executor.forget()
    engine.work.pruning.forget()
    programs = before.programs
    tables = {n: e for n, e in before.definitions.items() if isinstance(e, TableDefinition)}
    wanted = {e.name: e for e in from_json(manifest.catalog) if isinstance(e, TableDefinition)}
    gone = [
        name
        for name, table in tables.items()
        if table.connector != OBJECT and not _is_alike(table, wanted.get(name))
    ]
    ends += engine.leave(gone)
    for name in built.keys() - engine.defined.sources.keys():
        engine.defined.sources[name] = built.pop(name)
    engine.scheduler.restore()
    define(engine, engine.applied_settings)
    for name in list(engine.defined.operators):
        if isinstance(engine.defined.catalog.definitions.get(name), OperatorDefinition):
            part = programs[name].relations[0] if name in programs else None
            spread = part.spread if isinstance(part, Applied) else ()
            attach_operator(engine, name, engine.defined.operators[name], spread)
        else:
            del engine.defined.operators[name]
    for name in [
        each for each in engine.defined.sources if each not in engine.defined.catalog.definitions
    ]:
        del engine.defined.sources[name]
    engine.work.materialization.plan()
    engine.work.pruning.follow()
    engine.show(Snapshot(engine.ledger.manifest, engine.defined.catalog))
    engine.outputs.changelog.notify()


def _sinks(
    engine: Engine, then: Sequence[Mapping[str, Any]], before: list[dict[str, Any]], after: Any
) -> tuple[Mapping[str, Any], ...]:
    """Return the sinks to go on with: those of the checkpoint, each told what changes by it."""
    now = {each.name: each for each in engine.outputs.sinks.books.sinks()}
    differs = {*changed(after, before), *changed(before, after)}
    found = []
    for each in then:
        known = now.get(each["name"])
        is_same = known is not None and known.born and known.born == each.get("born")
        if known is not None and is_same:
            found.append(asdict(known))  # altered since, maybe: what it writes to is that of now
        elif known is None or known.built_from != SinkDefinition(**each).built_from:
            # It starts anew, with all rows: another one of its name has come to where it is.
            found.append({**each, "from_epoch": engine.ledger.timeline.store.last_number() + 1})
            continue
        else:
            found.append({**each, "from_epoch": known.from_epoch})
        if each["relation"] in differs:
            hint = f"drop the sink {each['name']} first, and create it again afterwards"
            raise NotSupported(
                f'restoring another definition of "{each["relation"]}", whose changes a sink'
                " publishes",
                hint,
            )
    return tuple(found)


def _refuse_lost(then: Any, kept: Any) -> None:
    """Refuse to keep definitions whose rows nobody can compute: other tables, Python operators."""
    kinds = {each["name"]: each["kind"] for each in kept}
    known = {each["name"] for each in then}
    for name in changed(then, kept):
        is_lost = kinds[name] == "operator" or (kinds[name] == "table" and name in known)
        if is_lost:
            raise RecoveryFailed(
                f'"{name}" was not then what it is now; restore without keeping definitions'
            )
