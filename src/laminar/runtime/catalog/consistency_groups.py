"""The consistency groups of a database, by the names and options of its views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from laminar.dag import StreamingDag
from laminar.dag.diamond import (
    ConsistencyGroup,
    DiamondConsistency,
    DiamondSchedulePolicy,
    compute_consistency_groups,
)
from laminar.runtime.catalog.definitions import Definition, LateDefinition, ViewDefinition


class HasDag(Protocol):
    """Definitions, and the DAG that they form; a catalog is one."""

    @property
    def dag(self) -> StreamingDag:
        """What reads what."""
        ...

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """All of them by name."""
        ...


@dataclass(frozen=True, slots=True)
class ViewGroup:
    """One group; a view in no diamond is a group of its own."""

    number: int | None
    """Counted from 1 in execution order; groups of one have none."""
    members: tuple[str, ...]
    convergence: tuple[str, ...]
    policy: DiamondSchedulePolicy
    group: ConsistencyGroup

    @property
    def name(self) -> str:
        """What metrics call it: its members."""
        return ", ".join(self.members)

    def told(self) -> str:
        """Describe it in a line, as EXPLAIN shows it."""
        meets = f" meets in {', '.join(self.convergence)}" if self.convergence else ""
        return f"{self.number} [{self.name}]{meets}: atomic, {self.policy.value}"


def groups_of(catalog: HasDag) -> list[ViewGroup]:
    """Return all groups, each after those it reads from.

    A view and the relation that takes its late rows are together in any case: what is late is said
    by the step in which it came, so both must take the same steps, or a row could be in neither.
    """
    dag = catalog.dag
    name = {node.id: node.name for node in dag.nodes.values()}
    node = {known: each for each, known in name.items()}
    late = [
        (node[each.view], node[each.name])
        for each in catalog.definitions.values()
        if isinstance(each, LateDefinition)
    ]
    out = {node for node in name if _opted_out(catalog, name[node])}
    found: list[ViewGroup] = []
    number = 0
    for group in compute_consistency_groups(dag, out, late):
        number += not group.is_singleton()
        convergence = tuple(name[each] for each in group.convergence_points)
        found.append(
            ViewGroup(
                None if group.is_singleton() else number,
                tuple(name[each] for each in group.members),
                convergence,
                _policy(catalog, convergence),
                group,
            )
        )
    return found


def _opted_out(catalog: HasDag, view: str) -> bool:
    found = catalog.definitions.get(view)
    return (
        isinstance(found, ViewDefinition) and found.diamond_consistency == DiamondConsistency.NONE
    )


def _policy(catalog: HasDag, convergence: tuple[str, ...]) -> DiamondSchedulePolicy:
    """Return the strictest policy of the views in which paths meet."""
    policy = DiamondSchedulePolicy.FASTEST
    for view in convergence:
        found = catalog.definitions[view]
        if isinstance(found, ViewDefinition):
            policy = policy.stricter(DiamondSchedulePolicy(found.diamond_schedule_policy))
    return policy
