"""Keeping a trace short: geometric merging of neighbours.

A segment of n rows has level ⌊log_f(n / base)⌋, f being the fan-out. A segment older than a bigger
one counts at the bigger one's level, so that seen from the oldest to the newest levels only fall
and every level is one run of neighbours. Two rules, until neither applies:

- a run in which f segments reach the level by their own size becomes one, of a higher level;
- the small ones between two that reach it become one, without touching those two.

So each level holds fewer than 2f segments, the trace O(f · log n); and a row is written at most
twice per level, O(log n) times in all. Level 0, where all sizes below f · base meet, is the one
exception: there f - 1 appends share one write of less than f² · base rows.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from laminar.model.trace import Segment, united
from laminar.store import durable_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.store.segments import SegmentStore

FANOUT = 8
BASE_ROWS = 64
"""Below this the size of a file does not show in any measurement; they all share level 0."""


def plan(
    segments: Sequence[Segment],
    fanout: int = FANOUT,
    *,
    base: int = BASE_ROWS,
) -> tuple[tuple[Segment, ...], ...]:
    """Return the groups of neighbours to merge, each into one segment.

    Args:
        segments: a trace, oldest first.
        fanout: how many of a size make one of the next.
        base: rows of the smallest size worth telling apart.
    """
    piles = [_Pile((segment,), segment.rows) for segment in segments]
    while True:
        # A merge can complete the next level: planned at once, its rows are written only once.
        merged = _step(piles, fanout, base)
        if len(merged) == len(piles):
            return tuple(pile.members for pile in piles if len(pile.members) > 1)
        piles = merged


def stretches(segments: Sequence[Segment], cursors: Collection[int]) -> list[tuple[Segment, ...]]:
    """Return the runs of segments between epochs that somebody stands at: they are not merged."""
    if not cursors:
        return [tuple(segments)]
    ends = sorted(cursors)
    return [
        tuple(run)
        for _, run in groupby(segments, key=lambda each: bisect.bisect_left(ends, each.hi))
    ]


def compact(
    store: SegmentStore,
    relation: str,
    epoch_tag: int,
    schema: str,
    group: Sequence[Segment],
    consolidate: Callable[[DataFrame], DataFrame] | None = None,
) -> Segment | None:
    """Write one segment that holds what the group holds, over the same epochs.

    Args:
        store: where the files are.
        relation: whose segments they are.
        epoch_tag: the epoch that the new file's name starts with.
        schema: the trace's schema.
        group: neighbours, oldest first.
        consolidate: adds up the weights of equal rows. Without it rows are copied as they are,
            which needs no Spark and is all an insert-only relation needs.

    Returns:
        The new segment; None if all rows cancelled out.
    """
    durable_files.failpoint("compaction.before_write")
    if consolidate is None:
        merged = store.concatenate(relation, epoch_tag, schema, group)
    else:
        frame = consolidate(store.frame(schema, group))
        merged = store.materialise(relation, epoch_tag, frame, sum(s.rows for s in group))
    durable_files.failpoint("compaction.after_write")
    return merged and dataclasses.replace(
        merged, lo=group[0].lo, hi=group[-1].hi, spans=united(group)
    )


@dataclass(frozen=True, slots=True)
class _Pile:
    """Neighbours that will become one segment, of at most so many rows."""

    members: tuple[Segment, ...]
    rows: int


def _step(piles: Sequence[_Pile], fanout: int, base: int) -> list[_Pile]:
    own = [_level(pile.rows, fanout, base) for pile in piles]
    ranked = list(zip(piles, own, _suffix_maxima(own), strict=True))
    result: list[_Pile] = []
    for level, run in groupby(ranked, key=lambda entry: entry[2]):
        result += _merge_run([(pile, size == level) for pile, size, _ in run], fanout)
    return result


def _merge_run(run: Sequence[tuple[_Pile, bool]], fanout: int) -> Iterator[_Pile]:
    """Apply both rules to one level's run of (pile, whether it reaches the level itself)."""
    if sum(full for _, full in run) >= fanout:
        yield _heap([pile for pile, _ in run])
        return
    for full, stretch in groupby(run, key=lambda entry: entry[1]):
        piles = [pile for pile, _ in stretch]
        yield from piles if full else [_heap(piles)]


def _heap(piles: Sequence[_Pile]) -> _Pile:
    members = tuple(member for pile in piles for member in pile.members)
    return _Pile(members, sum(pile.rows for pile in piles))


def _level(rows: int, fanout: int, base: int) -> int:
    # Counted in integers: a logarithm is off by one exactly where levels meet.
    level, size = 0, base * fanout
    while rows >= size:
        level, size = level + 1, size * fanout
    return level


def _suffix_maxima(levels: Sequence[int]) -> list[int]:
    highest, result = 0, []
    for level in reversed(levels):
        highest = max(highest, level)
        result.append(highest)
    return result[::-1]
