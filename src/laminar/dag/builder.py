"""How a program declares a DAG: by name, in any order, one call after another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Self

from laminar.dag.draft import EdgeDraft, NodeDraft
from laminar.dag.node import DagNodeType
from laminar.dag.operator import operator_kind
from laminar.dag.partitioning import PartitioningStrategy
from laminar.dag.topology import DEFAULT_MAX_FAN_OUT, MAX_PORTS, StreamingDag
from laminar.errors.dag import DuplicateEdge, DuplicateNode, InvalidPort, InvalidSetting
from laminar.model.schema import Schema

SchemaLike = Schema | str | None
"""A schema, or its columns as CREATE TABLE takes them."""


class FanOutBuilder:
    """Collects the branches that read one shared node."""

    def __init__(self, shared: str) -> None:
        self.shared = shared
        self.branches: list[NodeDraft] = []

    def branch(
        self,
        name: str,
        op: Any = None,
        *,
        schema: SchemaLike = None,
        input_schema: SchemaLike = None,
    ) -> Self:
        """Add an operator that reads the shared node."""
        self.branches.append(_operator_draft(name, op, schema, input_schema))
        return self


class DagBuilder:
    """Collects nodes and edges; `build` checks them and returns the immutable DAG.

    Edges may name nodes that are declared later. Faults that can be seen at once are raised at
    once, the others by `build`, which may be called again after further declarations.
    """

    def __init__(self, *, max_fan_out: int = DEFAULT_MAX_FAN_OUT) -> None:
        if max_fan_out < 1:
            raise InvalidSetting("max_fan_out", max_fan_out, "1 or more")
        self._max_fan_out = max_fan_out
        self._nodes: dict[str, NodeDraft] = {}
        self._edges: list[EdgeDraft] = []
        self._inputs: dict[str, dict[int, EdgeDraft]] = {}
        self._checkpoint_config: Any = None

    def source(
        self, name: str, connector_or_operator: Any = None, *, schema: SchemaLike = None
    ) -> Self:
        """Add an entry point, fed by a connector, by an operator, or by hand."""
        return self._add(
            NodeDraft(name, DagNodeType.SOURCE, connector_or_operator, Schema.of(schema))
        )

    def operator(
        self,
        name: str,
        op: Any = None,
        *,
        schema: SchemaLike = None,
        input_schema: SchemaLike = None,
    ) -> Self:
        """Add a stage: SQL text, a function from DataFrame to DataFrame, or an Operator."""
        return self._add(_operator_draft(name, op, schema, input_schema))

    def sink(self, name: str, sink: Any = None, *, input_schema: SchemaLike = None) -> Self:
        """Add an exit.

        A new name becomes a sink node, to be connected. The name of an existing source or operator
        gets a sink attached, called `<name>_sink`, then `<name>_sink_2` and so on.
        """
        present = self._nodes.get(name)
        attach = present is not None and present.node_type is not DagNodeType.SINK
        called = self._free_sink_name(name) if attach else name
        self._add(NodeDraft(called, DagNodeType.SINK, sink, input_schema=Schema.of(input_schema)))
        return self.connect(name, called) if attach else self

    def connect(
        self,
        source: str,
        target: str,
        *,
        source_port: int = 0,
        target_port: int | None = None,
        partitioning: PartitioningStrategy | None = None,
    ) -> Self:
        """Let one node read another, on the next free input port unless one is given."""
        if not 0 <= source_port < MAX_PORTS:
            raise InvalidPort(source, source_port, MAX_PORTS)
        port = self._input_port(source, source_port, target, target_port)
        edge = EdgeDraft(source, target, source_port, port, partitioning)
        self._edges.append(edge)
        self._inputs.setdefault(target, {})[port] = edge
        return self

    def fan_out(self, shared: str, branches: Callable[[FanOutBuilder], object]) -> Self:
        """Let several new operators read one node; the function adds them with `branch`."""
        collected = FanOutBuilder(shared)
        branches(collected)
        for draft in collected.branches:
            self._add(draft).connect(shared, draft.name)
        return self

    def checkpoint_config(self, config: Any) -> Self:
        """Say when checkpoints are taken, and how: a DagCheckpointConfig.

        A database that runs the DAG takes it for its settings `laminar.checkpoint_...`; without
        one they stay as they are.
        """
        self._checkpoint_config = config
        return self

    def build(self) -> StreamingDag:
        """Resolve the names, check the topology and return it."""
        return StreamingDag.assemble(
            tuple(self._nodes.values()),
            tuple(self._edges),
            max_fan_out=self._max_fan_out,
            checkpoint_config=self._checkpoint_config,
        )

    def _add(self, draft: NodeDraft) -> Self:
        if draft.name in self._nodes:
            raise DuplicateNode(draft.name)
        self._nodes[draft.name] = draft
        return self

    def _free_sink_name(self, name: str) -> str:
        candidates = (f"{name}_sink" if n == 1 else f"{name}_sink_{n}" for n in count(1))
        return next(candidate for candidate in candidates if candidate not in self._nodes)

    def _input_port(self, source: str, source_port: int, target: str, wanted: int | None) -> int:
        """Return the port an edge arrives at; a port takes one edge, so that inputs stay apart."""
        taken = self._inputs.get(target, {})
        if wanted is None:
            if any((e.source, e.source_port) == (source, source_port) for e in taken.values()):
                raise DuplicateEdge(source, target)
            return next(port for port in count() if port not in taken)
        if wanted < 0:
            raise InvalidSetting("target_port", wanted, "0 or more")
        if wanted in taken:
            holder = taken[wanted].source
            raise DuplicateEdge(source, target, f'port {wanted} already reads "{holder}"')
        return wanted


def _operator_draft(name: str, op: Any, schema: SchemaLike, input_schema: SchemaLike) -> NodeDraft:
    return NodeDraft(name, operator_kind(op), op, Schema.of(schema), Schema.of(input_schema))
