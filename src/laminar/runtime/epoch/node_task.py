"""The work of one epoch at each node of the DAG."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.errors import PySparkException

from laminar.dag import DagNode
from laminar.delta.change import Version
from laminar.delta.cost import is_cheap
from laminar.delta.program import Mapped, Merged, Program, Strategy
from laminar.model.trace_name import partial_trace, pending_trace
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.epoch.executor import named_error
from laminar.runtime.epoch.flight import DeltaNotice
from laminar.runtime.epoch.maintainer import Maintainer
from laminar.runtime.epoch.outcome import ViewReport
from laminar.runtime.epoch.shared_scan import plan_shared_scans
from laminar.runtime.relations.bindings import Bindings


class EpochTask:
    """Brings views up to date, as the executor reaches them.

    Args:
        catalog: what is defined.
        bindings: the relations of this epoch.
        maintainer: runs the rule of each relation.
        held: views that stay where they are.
        sizes: aggregate -> partial rows it made last; tells whether sharing a scan pays off.
        late_kept: how many late rows of a view are kept for looking at.
    """

    def __init__(
        self,
        catalog: Catalog,
        bindings: Bindings,
        maintainer: Maintainer,
        held: frozenset[str],
        sizes: dict[str, int],
        late_kept: int,
    ) -> None:
        self._catalog = catalog
        self._bindings = bindings
        self._maintainer = maintainer
        self._held = held
        self.sizes = sizes
        self._late_kept = late_kept
        self.reports: dict[str, ViewReport] = {}
        self._done: list[str] = []
        self._next: EpochTask | None = None

    def prepare(self, nodes: list[DagNode]) -> None:
        """Let aggregates over the same rows share a scan."""
        running = [
            self._catalog.programs[node.name] for node in nodes if node.name not in self._held
        ]
        first = [program.relations[0] for program in running]
        members = [each for each in first if isinstance(each, Merged)]
        if len(members) > 1:
            self._maintainer.shared |= plan_shared_scans(members, self._bindings, self.sizes)

    def run(self, node: DagNode, _inputs: list[DeltaNotice]) -> DeltaNotice | None:
        """Bring the relations of a view up to date, in order."""
        if node.name in self._held:
            return None
        started = time.perf_counter()
        program = self._catalog.programs[node.name]
        rows = 0
        try:
            for relation in program.relations:
                rows = self._maintainer.maintain(relation) or rows
            if program.late is not None:
                self._maintainer.late.count(program.view, program.late, self._late_kept)
        except PySparkException as error:
            raise named_error(self._culprit(node.name), error) from error
        duration = (time.perf_counter() - started) * 1000
        name = program.view
        self.reports[name] = ViewReport(name, rows, duration, self._strategy(program).value)
        if not self._bindings.state(name).changed:
            return None
        return DeltaNotice(name, rows)

    def _strategy(self, program: Program) -> Strategy:
        """Return how the view was brought up to date in this epoch."""
        own = {each.shape.name for each in program.relations}
        return program.strategy if own.isdisjoint(self._maintainer.anew) else Strategy.FULL

    def leaves_out(self, view: str) -> bool:
        """Return whether a view stays where it is."""
        return view in self._held

    def share(self, node: DagNode, delta: DeltaNotice) -> DeltaNotice:
        """Cache the delta of a fused view, so that its consumers do not compute it again.

        A stored one is a file already; a cheap one costs less to compute in each reader's scan.
        """
        relation = self._bindings.relations.by_name[node.name]
        if node.name not in self._bindings.relations.fused or not isinstance(relation, Mapped):
            return delta
        if is_cheap(relation.node):
            return delta
        self._bindings.share(node.name)
        return replace(delta, release=lambda: self._bindings.unshare(node.name))

    def finished(self, node: DagNode) -> None:
        """Leave what a node holds now to the epoch that follows."""
        self._done.append(node.name)
        if self._next is not None:
            self._leave(node.name, self._next)

    def follow(self, earlier: EpochTask) -> None:
        """Stand on what an epoch leaves that may still be on its way.

        The executor calls this and `finished`, one at a time. A node of this epoch begins when the
        same node of the earlier one has finished, so it never sees a trace before it is what the
        earlier epoch made of it.
        """
        earlier._next = self
        for name in earlier._done:
            earlier._leave(name, self)

    def _leave(self, name: str, later: EpochTask) -> None:
        mine, theirs = self._bindings.versions, later._bindings.versions
        program = self._catalog.programs.get(name)
        own = [name] if program is None else [each.shape.name for each in program.relations]
        for trace in (*own, *map(partial_trace, own), *map(pending_trace, own)):
            if trace in mine:
                before = mine[trace].segments(Version.AFTER)
                theirs[trace] = replace(theirs[trace], before=before)

    def _culprit(self, name: str) -> str:
        """A fused view runs inside its readers: find out whose expression failed."""
        upstream = self._catalog.registry.all_dependencies(name)
        for each in upstream:
            if each not in self._bindings.relations.fused or each in self._held:
                continue
            try:
                rows = self._bindings.frame(each, Version.DELTA)
                rows.write.format("noop").mode("overwrite").save()
            except PySparkException:
                return each
        return name
