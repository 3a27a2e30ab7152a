"""What can be wrong with a topology, and what can go wrong while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from laminar.errors.base import LaminarError, did_you_mean, nearest


class DagError(LaminarError):
    """A DAG could not be built or could not go on.

    Catch this to handle every error of a topology or of its run in one place.
    """

    code: ClassVar[str] = "LMR-1000"


class CycleDetected(DagError):
    """The nodes depend on each other in a circle, so none of them can go first.

    The message walks the circle once. Remove one of its edges, or read a source instead of a
    derived node at one point of it.
    """

    code: ClassVar[str] = "LMR-1001"

    def __init__(self, path: Sequence[str]) -> None:
        super().__init__(
            f"cycle detected: {' -> '.join(path)}",
            hint="remove one of these edges",
        )
        self.path: tuple[str, ...] = tuple(path)


class NodeNotFound(DagError):
    """A name or an id does not belong to any node of the DAG.

    Declare the node, or correct the name; the hint holds the nearest name there is.
    """

    code: ClassVar[str] = "LMR-1002"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(f'node not found: "{name}"', hint=did_you_mean(name, names))
        self.name = name
        self.suggestion: str | None = nearest(name, names)


class DisconnectedNode(DagError):
    """A node has neither an input nor an output, so nothing could ever reach it.

    Connect it to the rest of the DAG, or leave it out.
    """

    code: ClassVar[str] = "LMR-1003"

    def __init__(self, name: str) -> None:
        super().__init__(
            f'disconnected node: "{name}"',
            detail="it has no inputs and no outputs",
            hint=f'connect it with .connect(..., "{name}") or remove it',
        )
        self.name = name


class SchemaMismatch(DagError):
    """A node expects a column that its input does not deliver, or delivers as another type.

    Rename or cast the column on the producing side, or correct the declared input schema.
    """

    code: ClassVar[str] = "LMR-1004"

    def __init__(
        self, source: str, target: str, column: str, expected: str, found: str | None
    ) -> None:
        what = "no such column" if found is None else found
        super().__init__(
            f'schema mismatch on edge {source} -> {target}: column "{column}" '
            f"expected {expected}, found {what}",
            hint=f'rename or cast the column in "{source}", or correct the schema of "{target}"',
        )
        self.source = source
        self.target = target
        self.column = column
        self.expected = expected
        self.found = found


class FanOutLimitExceeded(DagError):
    """One output port of a node feeds more consumers than the limit allows.

    Put a stage in between that shares the work of several consumers, or raise the limit.
    """

    code: ClassVar[str] = "LMR-1005"

    def __init__(self, node: str, count: int, limit: int) -> None:
        super().__init__(
            f'fan-out limit exceeded at node "{node}": {count} consumers, limit {limit}',
            hint=f"raise the limit with max_fan_out={count} or more",
        )
        self.node = node
        self.count = count
        self.limit = limit


class DuplicateNode(DagError):
    """Two nodes of one DAG were given the same name.

    Names identify nodes; choose another one.
    """

    code: ClassVar[str] = "LMR-1006"

    def __init__(self, name: str) -> None:
        super().__init__(f'duplicate node: "{name}"', hint="choose another name")
        self.name = name


class DuplicateEdge(DagError):
    """The same connection was declared twice.

    Remove one of them. To read the same input twice, as a self-join does, give each connection
    its own `target_port`.
    """

    code: ClassVar[str] = "LMR-1007"

    def __init__(self, source: str, target: str, detail: str = "") -> None:
        super().__init__(
            f"duplicate edge: {source} -> {target}",
            detail=detail,
            hint="remove it, or give it a target_port of its own",
        )
        self.source = source
        self.target = target


class InvalidPort(DagError):
    """A port number lies outside the range that a node has.

    Ports count from 0; the message names the highest one.
    """

    code: ClassVar[str] = "LMR-1008"

    def __init__(self, node: str, port: int, limit: int) -> None:
        super().__init__(
            f'invalid port {port} at node "{node}"',
            hint=f"use a port from 0 to {limit - 1}",
        )
        self.node = node
        self.port = port
        self.limit = limit


class InvalidOperator(DagError):
    """An object was given as an operator that cannot process anything.

    Give SQL text, a function from DataFrame to DataFrame, or an object with `process(delta, ctx)`.
    """

    code: ClassVar[str] = "LMR-1009"

    def __init__(self, operator: object) -> None:
        super().__init__(
            f"invalid operator of type {type(operator).__name__}",
            hint="give SQL text, a function, or an object with process(delta, ctx)",
        )


class BackpressureFull(DagError):
    """A shared stage cannot publish, because its slowest consumer has not read far enough.

    Not a fault: wait until that consumer has caught up, then publish again. If it happens all
    the time, give the buffer more slots.
    """

    code: ClassVar[str] = "LMR-1010"

    def __init__(self, capacity: int) -> None:
        super().__init__(
            "backpressure: the buffer of the shared stage is full",
            detail=f"all {capacity} slots wait for a consumer",
            hint="let the slowest consumer catch up, or raise the capacity",
        )
        self.capacity = capacity


class OperatorError(DagError):
    """An operator raised an error while it processed a change.

    The detail carries the operator's own words, and `__cause__` its exception. The view stays at
    its epoch with its group and all that depend on it; the others go on, and `report` is their
    epoch. Correct the rows or the view: it is tried again, and takes all that it missed.
    """

    code: ClassVar[str] = "LMR-1011"

    def __init__(self, node: str, reason: object) -> None:
        super().__init__(f'operator failed at node "{node}"', detail=str(reason))
        self.node = node
        self.report: Any = None
        """The epoch that was committed without the view; None if there was none."""


class ConnectorError(DagError):
    """A source or sink could not talk to its outside system.

    Check that the system is up and that the connector's options name it correctly.
    """

    code: ClassVar[str] = "LMR-1012"

    def __init__(self, connector: str, reason: object) -> None:
        super().__init__(f'connector "{connector}" failed', detail=str(reason))
        self.connector = connector


class CheckpointTimeout(DagError):
    """A checkpoint was given up, because some node did not report in time.

    The last complete checkpoint stays valid. Raise the timeout if nodes are slow by nature.
    """

    code: ClassVar[str] = "LMR-1013"

    def __init__(self, checkpoint_id: int, elapsed: float) -> None:
        super().__init__(
            f"checkpoint {checkpoint_id} timed out after {elapsed:g} s",
            hint="raise the checkpoint timeout, or look for the slow node",
        )
        self.checkpoint_id = checkpoint_id
        self.elapsed = elapsed


class TooManyCheckpoints(DagError):
    """A checkpoint was asked for while as many as allowed were under way.

    Wait for one of them, or allow more with `laminar.checkpoint_max_concurrent`.
    """

    code: ClassVar[str] = "LMR-1019"

    def __init__(self, limit: int, active: Sequence[int]) -> None:
        super().__init__(
            f"too many checkpoints: {len(active)} are under way, the limit is {limit}",
            detail=f"under way: {', '.join(map(str, active))}",
            hint="wait, or raise laminar.checkpoint_max_concurrent",
        )
        self.limit = limit
        self.active: tuple[int, ...] = tuple(active)


class NoCheckpointFound(DagError):
    """Recovery was asked for, but there is no complete checkpoint to recover from.

    Check the directory; an empty one is opened by starting anew.
    """

    code: ClassVar[str] = "LMR-1014"

    def __init__(self, location: str) -> None:
        super().__init__(f"no valid checkpoint found in {location}")
        self.location = location


class RecoveryFailed(DagError):
    """No state of a database is whole, or going back to one would lose rows.

    The detail says which files are damaged; nothing was touched. Put them back from a backup, or
    accept the loss: open it with `connect(path, recovery=RecoveryConfig(RecoveryMode.Specific(n)))`
    to go on from checkpoint n. `laminar checkpoints` lists them.
    """

    code: ClassVar[str] = "LMR-1015"

    def __init__(self, reason: object, path: str = "") -> None:
        super().__init__(
            f"recovery failed{f': {path}' if path else ''}",
            detail=str(reason),
            hint="put the damaged files back, or open it at a checkpoint:"
            " connect(..., recovery=RecoveryConfig(RecoveryMode.Specific(n)))",
        )
        self.path = path


class InvalidSchema(DagError):
    """A schema cannot be read, or names one column twice.

    Write it as in CREATE TABLE: `name TYPE, name TYPE NOT NULL`. Column names ignore case.
    """

    code: ClassVar[str] = "LMR-1016"

    def __init__(self, reason: str, ddl: str = "") -> None:
        super().__init__(
            f"invalid schema: {reason}",
            detail=f"in: {ddl}" if ddl else "",
            hint='write columns as "name TYPE, name TYPE NOT NULL"',
        )


class InvalidSetting(DagError):
    """A part of a DAG was given a value that it cannot work with.

    The message names the setting and what it takes.
    """

    code: ClassVar[str] = "LMR-1017"

    def __init__(self, setting: str, value: object, expected: str) -> None:
        super().__init__(f"invalid {setting}: {value!r}", hint=f"it takes {expected}")
        self.setting = setting
