"""Runs a statement that serves several aggregates: whoever comes first computes, all take."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from laminar.delta.partials import needs_reset
from laminar.delta.program import Merged
from laminar.delta.render import change
from laminar.delta.shared_scans import SharedScanPlan, common_input, shared_scans
from laminar.store.collect import collect

if TYPE_CHECKING:
    import pyarrow as pa

    from laminar.runtime.relations.bindings import Bindings

_LOG = logging.getLogger("laminar.epochs")

WORTHWHILE = 8
"""A scan is shared if the finest groups are at least so many times fewer than the rows."""

SMALL = 100_000
"""Results of more rows are not split in the driver."""


class SharedScan:
    """One scan of one epoch, run by whichever member asks first."""

    def __init__(self, plan: SharedScanPlan, bindings: Bindings) -> None:
        self._plan = plan
        self._bindings = bindings
        self._lock = threading.Lock()
        self._result: pa.Table | None = None
        self._failed = False

    def partial_rows(self, relation: Merged) -> pa.Table | None:
        """Return the partial rows of one member; None if each must compute its own.

        It fails as a whole, though an expression of one member alone is to blame.
        """
        with self._lock:
            if self._result is None and not self._failed:
                try:
                    self._result = self._compute()
                except PySparkException as error:
                    _LOG.info("%s run apart: %s", ", ".join(self._plan.names), error)
                    self._failed = True
        if self._result is None:
            return None
        place = self._plan.names.index(relation.shape.name)
        pairs = self._plan.columns_of(place)
        chosen = self._result.select([column for column, _ in pairs])
        return chosen.rename_columns([name for _, name in pairs])

    def _compute(self) -> pa.Table:
        first = self._plan.members[0]
        source = common_input(first)
        assert source is not None
        sql = self._plan.sql(change(source, self._bindings.states))
        found = collect(self._bindings.compute(sql, first.reads))
        assert found is not None
        return found


def plan_shared_scans(
    members: list[Merged], bindings: Bindings, sizes: dict[str, int]
) -> dict[str, SharedScan]:
    """Decide which aggregates of a wave share a scan in this epoch.

    Args:
        members: aggregates that run side by side.
        bindings: the epoch.
        sizes: relation -> partial rows of its last epoch; one that is not known runs alone.
    """
    able = [each for each in members if each.shape.name in sizes and _adds_up(each, bindings)]
    shared: dict[str, SharedScan] = {}
    for plan in shared_scans(able):
        finest = sizes[plan.names[0]]
        rows = sum(bindings.delta_rows(name) for name in plan.members[0].reads)
        if finest <= SMALL and finest * WORTHWHILE <= rows:
            one = SharedScan(plan, bindings)
            shared |= dict.fromkeys(plan.names, one)
    return shared


def _adds_up(relation: Merged, bindings: Bindings) -> bool:
    given = change(relation.node.input, bindings.states)
    return given.delta is not None and not needs_reset(relation, given)
