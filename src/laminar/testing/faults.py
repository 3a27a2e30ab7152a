"""Views that fail on request, to see what becomes of the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from laminar.dag import DagNode
from laminar.runtime.epoch.node_task import EpochTask


class Faults:
    """The views of this fail when an epoch reaches them, after they have done their work."""

    def __init__(self) -> None:
        self.views: set[str] = set()
        self.hits = 0
        """How often one failed."""

    @contextmanager
    def armed(self) -> Iterator[Faults]:
        """Let the views fail while the context lasts, in every database of this process."""
        run = EpochTask.run

        def faulty(task: EpochTask, node: DagNode, inputs: Any) -> Any:
            made = run(task, node, inputs)  # what it made must not stay
            if node.name in self.views and not task.leaves_out(node.name):
                self.hits += 1
                raise ArithmeticError(f"{node.name} was told to fail")
            return made

        EpochTask.run = faulty  # type: ignore[method-assign, assignment]
        try:
            yield self
        finally:
            EpochTask.run = run  # type: ignore[method-assign]
