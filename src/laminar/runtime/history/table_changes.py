"""Changes as rows of a query: each is one insertion, deletion, or one half of an update.

| column | |
|---|---|
| `_change_type` | `insert`, `delete`; with a key `update_preimage`, `update_postimage` |
| `_commit_version` | the epoch |
| `_commit_timestamp` | when it was committed |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.delta.change import columns
from laminar.delta.program import Shape
from laminar.errors import EpochNotFound, NotSupported
from laminar.model.trace import WEIGHT
from laminar.runtime.catalog.row_keys import row_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.history.differences import Differences
    from laminar.runtime.history.timeline import Snapshot, Timeline
    from laminar.sql.table_changes import ChangeRange

TYPE, VERSION, TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
_OWN = ((TYPE, "string"), (VERSION, "bigint"), (TIMESTAMP, "timestamp"))


def changed_shape(shape: Shape) -> Shape:
    """Return the columns of a relation's changes."""
    names, types = zip(*_OWN, strict=True)
    return Shape(shape.name, (*shape.columns, *names), (*shape.types, *types), shape.chars)


def changed_rows(
    between: Differences,
    timeline: Timeline,
    snapshot: Snapshot,
    asked: ChangeRange,
    empty: DataFrame,
) -> DataFrame:
    """Return the changes of a relation in a range of epochs, both ends included.

    Args:
        between: tells what changed.
        timeline: the epochs that are kept.
        snapshot: the definitions.
        asked: relation and range; without a last epoch, up to the newest.
        empty: a frame with the relation's columns, the weight, and no rows.

    Raises:
        EpochNotFound: the epoch before the first one is pruned, or one is not there yet.
    """
    name = snapshot.catalog.resolve(asked.relation)
    shape = snapshot.catalog.shape(name)
    for column, _ in _OWN:
        if column in (each.lower() for each in shape.columns):
            raise NotSupported(f'changes of "{name}", which has a column {column}', "rename it")
    kept = timeline.epochs()
    newest = snapshot.manifest.epoch
    last = newest if asked.last is None else asked.last
    taken = asked.first - 1
    if last > newest or asked.first > newest:
        raise EpochNotFound(max(last, asked.first), kept[0], newest)
    if taken >= 0 and taken not in kept:
        error = EpochNotFound(taken, kept[0], newest)
        error.hint = "what an epoch changed is told by it and the one before: ask for a later one"
        raise error
    parts: list[DataFrame] = []
    for epoch in (each for each in kept if taken < each <= last):
        if taken < 0:
            told = between.content(snapshot, name, epoch)
        else:
            told = between.delta(snapshot, name, taken, epoch)
        taken = epoch
        if told is not None:
            parts.append(_stamped(told.frame, epoch, timeline.get(epoch).committed_at))
    rows = parts[0] if parts else _stamped(empty, 0, snapshot.manifest.committed_at)
    for part in parts[1:]:
        rows = rows.unionAll(part)
    catalog = snapshot.catalog
    key = row_key(name, catalog.relations.by_name, catalog.primary_keys())
    return _typed(rows, shape, key)


def _stamped(rows: DataFrame, epoch: int, committed_at: str) -> DataFrame:
    moment = f"TIMESTAMP'{committed_at}' AS {TIMESTAMP}"
    return rows.selectExpr("*", f"{epoch}L AS {VERSION}", moment)


def _typed(rows: DataFrame, shape: Shape, key: tuple[str, ...] | None) -> DataFrame:
    """Name the kind of each change; a weight of -2 becomes two rows."""
    gone, come = "'delete'", "'insert'"
    if key is not None:
        # One row of a key that goes, and one that comes in the same epoch, are one update.
        parts = f"PARTITION BY {columns((VERSION, *key))}"
        least, most = (f"{call}({WEIGHT}) OVER ({parts}) AS __{call}" for call in ("MIN", "MAX"))
        rows = rows.selectExpr("*", least, most)
        gone = f"IF(__MAX > 0, 'update_preimage', {gone})"
        come = f"IF(__MIN < 0, 'update_postimage', {come})"
    return rows.selectExpr(
        *(columns((name,)) for name in shape.columns),
        f"IF({WEIGHT} > 0, {come}, {gone}) AS {TYPE}",
        VERSION,
        TIMESTAMP,
        f"EXPLODE(ARRAY_REPEAT(0, CAST(ABS({WEIGHT}) AS INT))) AS __copy",
    ).drop("__copy")
