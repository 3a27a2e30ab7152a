"""Time in an epoch: which windows close, which are final, and what state that lets go of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from laminar.delta.emission import Thresholds
from laminar.delta.program import Aged, Emitted, Merged, Periodic
from laminar.model.event_time import final, shown
from laminar.model.local_days import UNEVEN
from laminar.model.trace import Segment, Trace
from laminar.model.trace_name import partial_trace, pending_trace, view_of
from laminar.runtime.catalog.storage_plan import StoragePlan
from laminar.runtime.event_time.watermarks import EpochTime


def thresholds(relation: Emitted, epoch_time: EpochTime) -> Thresholds:
    """Return the ends of windows below which a view shows them, before and after an epoch."""
    view, chains = relation.horizon.view, relation.horizon.chains
    return Thresholds(
        shown(chains, epoch_time.before.get(view)), shown(chains, epoch_time.after.get(view))
    )


def state_trace(relation: Emitted, relations: StoragePlan) -> str:
    """Return the trace that holds the windows a relation may show."""
    source = relation.reads[0]
    is_merged = isinstance(relations.by_name[source], Merged)
    return partial_trace(source) if is_merged else source


def that_close(segments: Iterable[Segment], path: str, found: Thresholds) -> tuple[Segment, ...]:
    """Return the segments that may hold windows which close."""
    if not found.moved:
        return ()
    assert found.after is not None
    low = found.before
    return tuple(
        each
        for each in segments
        if path not in each.spans
        or (each.spans[path][0] < found.after and (low is None or each.spans[path][1] >= low))
    )


def is_due(
    relation: Emitted, relations: StoragePlan, epoch_time: EpochTime, traces: Mapping[str, Trace]
) -> bool:
    """Whether stored windows may close in an epoch, whatever comes in."""
    trace = traces.get(state_trace(relation, relations))
    if trace is None:
        return False
    return bool(that_close(trace.segments, relation.horizon.path, thresholds(relation, epoch_time)))


def cutoffs(
    relations: StoragePlan, watermarks: Mapping[str, int], aged_to: Mapping[str, int]
) -> dict[str, tuple[str, int]]:
    """Return trace -> (path, bound): rows that end before the bound are of no use any more."""
    found: dict[str, tuple[str, int]] = {}
    for each in relations.by_name.values():
        if isinstance(each, Emitted):
            bound = final(each.horizon.chains, watermarks.get(each.horizon.view))
            if bound is not None:
                found[state_trace(each, relations)] = (each.horizon.path, bound)
        elif isinstance(each, Aged) and each.shape.name in aged_to:
            # An hour that comes twice may bring rows back.
            safe = UNEVEN if each.node.moves else 0
            found[each.reads[0]] = (each.node.end, aged_to[each.shape.name] - safe)
    return found


def without_final(trace: Trace, path: str, bound: int) -> Trace:
    """Drop the segments of which every window is final; no file is read."""
    kept = tuple(
        each for each in trace.segments if path not in each.spans or each.spans[path][1] >= bound
    )
    return trace if len(kept) == len(trace.segments) else Trace(trace.schema, kept)


def that_age(
    relation: Aged, segments: Iterable[Segment], before: int | None, after: int
) -> tuple[Segment, ...]:
    """Return the segments that may hold rows of which time reaches a limit."""
    if before is None or before >= after:
        return ()
    limits = (relation.node.start, relation.node.end)
    low, high = sorted(map(relation.node.clock, (before, after)))
    return tuple(
        each
        for each in segments
        if any(
            limit in each.spans and each.spans[limit][0] <= high and each.spans[limit][1] > low
            for limit in limits
        )
    )


def aging_due(
    relations: StoragePlan, traces: Mapping[str, Trace], aged_to: Mapping[str, int], now_ms: int
) -> frozenset[str]:
    """Return the views of which rows come or go because time has passed."""
    return frozenset(
        view_of(name)
        for name, each in relations.by_name.items()
        if isinstance(each, Aged)
        and each.reads[0] in traces
        and that_age(each, traces[each.reads[0]].segments, aged_to.get(name), now_ms * 1000)
    )


def periodic_due(
    relations: StoragePlan,
    traces: Mapping[str, Trace],
    emitted_at: Mapping[str, int],
    now_ms: int,
) -> frozenset[str]:
    """Return the views whose turn it is by the wall clock, if they have something to show."""
    return frozenset(
        name
        for name, each in relations.by_name.items()
        if isinstance(each, Periodic)
        and now_ms >= emitted_at.get(name, 0) + each.every_us // 1000
        and traces.get(pending_trace(name), Trace("")).segments
    )


def turns(relations: StoragePlan, emitted_at: Mapping[str, int], now_ms: int) -> frozenset[str]:
    """Return the views that may show their changes now."""
    return frozenset(
        name
        for name, each in relations.by_name.items()
        if isinstance(each, Periodic) and now_ms >= emitted_at.get(name, 0) + each.every_us // 1000
    )
