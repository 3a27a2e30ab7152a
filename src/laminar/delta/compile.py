"""Cut a plan into relations, each kept up to date by one rule.

Linear operators and inner joins need no state and stay together in one statement. Every other
operator becomes a relation of its own, named after the view (`v#1`, `v#2`), with a trace that its
readers share. Sub-plans that are equal but for the names of their columns become one relation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from laminar.delta.accumulators import Accumulators, mergeable
from laminar.delta.distinct_variants import by_bytes
from laminar.delta.guards import guard_of
from laminar.delta.linear import block_of
from laminar.delta.partials import accumulate, partial_columns
from laminar.delta.program import (
    Aged,
    Emitted,
    Late,
    Limited,
    Maintained,
    Mapped,
    Merged,
    Periodic,
    Program,
    Recomputed,
    Recursed,
    Regrouped,
    Sessioned,
    Shape,
)
from laminar.delta.render import Everything, change
from laminar.model.same_row import RowType, is_coarse, tie_breaker
from laminar.model.trace import ARRIVAL
from laminar.model.trace_name import late_trace, part_of
from laminar.plan.canonical import canonical, repeated
from laminar.plan.closing import Lateness
from laminar.plan.nodes import (
    Again,
    Aggregate,
    Aging,
    Anti,
    Close,
    Constant,
    Filter,
    Generate,
    Join,
    KeyedJoin,
    Node,
    Project,
    Recursion,
    Reweigh,
    Scan,
    Sessions,
    Settled,
    Timely,
    TopK,
    UnionAll,
    Window,
    children,
    scanned,
)
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.recursion import reads_again
from laminar.plan.rewrite import with_inputs

NodeT = TypeVar("NodeT", bound=Node)


class Types(Protocol):
    """Asks Spark for types; knows the relations declared so far."""

    def types(self, node: Node) -> Mapping[str, str]:
        """Return column -> type of a plan."""
        ...

    def of_sql(self, sql: str) -> Mapping[str, str]:
        """Return column -> type of a statement."""
        ...

    def declare(self, shape: Shape) -> None:
        """Make a relation known under its name."""
        ...


def compile_query(
    shape: Shape,
    node: Node,
    types: Types,
    *,
    every_us: int = 0,
    lateness: Lateness | None = None,
) -> Program:
    """Compile a lowered query.

    Args:
        shape: the view's name, columns and declared types.
        node: the plan.
        types: asks Spark.
        every_us: how often the view shows its changes; 0 for always.
        lateness: how to find rows that are late for it.
    """
    return _Compiler(shape, types).compile(node, every_us, lateness)


def compile_full(
    shape: Shape,
    sql: str,
    reads: tuple[str, ...],
    reason: Reason,
    detail: str,
    *,
    every_us: int = 0,
) -> Program:
    """Compile a query that has no rule: it is run in full, and compared with what is stored."""
    if not every_us:
        return Program(shape.name, (Recomputed(shape, sql, reads, reason, detail),))
    inner = Shape(part_of(shape.name, 1), shape.columns, shape.types)
    made = Recomputed(inner, sql, reads, reason, detail)
    return Program(shape.name, (made, _periodic(shape, inner, every_us)))


def _periodic(shape: Shape, inner: Shape, every_us: int) -> Periodic:
    scan = Scan(inner.name, tuple((column, column) for column in inner.columns))
    return Periodic(shape, scan, (inner.name,), every_us)


class _Compiler:
    def __init__(self, shape: Shape, types: Types) -> None:
        self.shape = shape
        self.types = types
        self.relations: list[Maintained] = []
        self.known: dict[Hashable, Shape] = {}
        self.repeated: frozenset[Hashable] = frozenset()

    def compile(self, node: Node, every_us: int, lateness: Lateness | None) -> Program:
        self.repeated = repeated(node)
        cut = self._cut(node)
        root = self._declared(cut)
        late = None if lateness is None else self._late(lateness)
        reads = scanned(root)
        own = {each.shape.name for each in self.relations}
        fusible, guard = _is_light(root) or set(reads) <= own, None
        risk = guard_of(cut, self._types_below(cut)) if fusible else None
        if risk is not None:
            # Rows that are stored are computed in the epoch, where a failure belongs. Over one
            # relation of its own it is enough to try.
            fusible = set(reads) <= own and block_of(root) is not None
            guard = risk if fusible else None
        shape = self.shape
        if every_us:
            shape = Shape(self._name(), shape.columns, shape.types)
            self.types.declare(shape)
        self.relations.append(Mapped(shape, root, reads, fusible, guard))
        if every_us:
            self.relations.append(_periodic(self.shape, shape, every_us))
        return Program(self.shape.name, tuple(self.relations), late=late)

    def _late(self, lateness: Lateness) -> Late:
        cut = self._cut(lateness.node)
        types = self.types.types(cut)
        items = [i for i in lateness.scan.items if i[1] in types and i[0] != ARRIVAL]
        names, uniques = tuple(name for name, _ in items), tuple(name for _, name in items)
        shape = Shape(late_trace(self.shape.name), names, tuple(types[name] for name in uniques))
        sessions = None
        if lateness.in_session is not None:
            kept = [each.shape.name for each in self.relations if isinstance(each, Sessioned)]
            sessions = (kept[0], lateness.in_session)
        return Late(
            shape,
            cut,
            uniques,
            scanned(cut),
            lateness.time,
            lateness.is_once,
            lateness.horizon,
            sessions,
        )

    def _types_below(self, node: Node) -> Mapping[str, str]:
        """Types of the columns that a chain of filters and projections names."""
        found: dict[str, str] = {}
        while isinstance(node, Filter | Project):
            node = node.input
            found |= self.types.types(node)
        return found

    def _declared(self, node: Node) -> Node:
        """Give the output the declared types; refuse a lowering that changed their family."""
        found = self.types.types(node)
        items: list[tuple[str, str]] = []
        for column, name, declared in zip(
            node.columns, self.shape.columns, self.shape.types, strict=True
        ):
            kind = found[column]
            if kind == declared:
                items.append((column, column))
            elif _family(kind) == _family(declared):
                items.append((f"CAST({column} AS {declared})", column))
            else:
                raise NoRule(
                    Reason.LOWERING_CHANGED_TYPES, f"{name} is {declared}, planned as {kind}"
                )
        return Project(node, tuple(items))

    def _cut(self, node: Node) -> Node:
        match node:
            case Scan() | Constant() | Again() | Settled():
                return node
            case Filter():
                return Filter(self._cut(node.input), node.predicate)
            case Project():
                return Project(self._cut(node.input), node.items)
            case Generate():
                return Generate(self._cut(node.input), node.generator, node.produced, node.outer)
            case Reweigh():
                return Reweigh(self._cut(node.input), node.factor)
            case UnionAll():
                parts = tuple(self._cut(each) for each in node.inputs)
                return UnionAll(parts, node.columns, node.types)
            case Join() | Anti() if self.repeated and canonical(node) in self.repeated:
                return self._stateful(node, lambda given: self._mapped(given, self._joined(given)))
            case Join() | Anti():
                return self._joined(node)
            case Timely():
                return Timely(self._cut(node.input), node.horizon)
            case Aggregate():
                return self._stateful(node, self._aggregate)
            case Sessions():
                return self._finished_sessions(node)
            case Close():
                return self._close(node)
            case Aging():
                return self._stateful(node, self._aged)
            case Window() | KeyedJoin():
                return self._stateful(node, self._regrouped)
            case TopK():
                return self._stateful(node, self._limited)
            case Recursion():
                return self._stateful(node, self._recursed)

    def _joined(self, node: Join | Anti) -> Node:
        match node:
            case Join():
                return Join(tuple(self._light(each) for each in node.inputs), node.predicates)
            case Anti():
                left, right = self._light(node.left), self._light(node.right)
                return Anti(left, right, node.left_keys, node.right_keys, node.operators)

    def _light(self, node: Node) -> Node:
        """A join reads its inputs several times over: they must be cheap, or stored."""
        cut = self._cut(node)
        if _is_light(cut):
            return cut
        return self._stateful(node, lambda given: self._mapped(given, cut))

    def _stateful(self, node: NodeT, make: Callable[[NodeT], Maintained]) -> Scan:
        shape = self._shared(node, make)
        return Scan(shape.name, tuple(zip(shape.columns, node.columns, strict=True)))

    def _shared(self, node: NodeT, make: Callable[[NodeT], Maintained]) -> Shape:
        """Return the shape of the relation that stands for a node, made the first time."""
        form = canonical(node)
        if form not in self.known:
            relation = make(node)
            self.types.declare(relation.shape)
            self.relations.append(relation)
            self.known[form] = relation.shape
        return self.known[form]

    def _name(self) -> str:
        return part_of(self.shape.name, len(self.relations) + 1)

    def _shape(self, node: Node, types: Mapping[str, str]) -> Shape:
        return Shape(self._name(), node.columns, tuple(types[column] for column in node.columns))

    def _mapped(self, node: Node, cut: Node) -> Mapped:
        return Mapped(self._shape(node, self.types.types(cut)), cut, scanned(cut), fusible=False)

    def _aggregate(self, node: Aggregate) -> Maintained:
        cut = replace(node, input=self._cut(node.input))
        given = self.types.types(cut.input)
        _refuse_keys(cut.keys, given)
        if not mergeable(cut.calls, given):
            return self._regrouped_from(self._counting_bytes(cut, given))
        accumulators = Accumulators(cut.calls, given, cut.keys)
        reads = scanned(cut.input)
        inputs = RowType.of(given).only(cut.input.columns)
        draft = Merged(Shape("", (), ()), cut, reads, accumulators, "", inputs)
        # Of a constant there is a delta in the first epoch only.
        everything = change(cut.input, Everything(), first=True)
        partials = self.types.of_sql(accumulate(draft, everything))
        shape = self._shape(cut, {**given, **self._result_types(cut)})
        ddl = ", ".join(f"`{name}` {kind}" for name, kind in partials.items())
        rows = RowType.of(partials).only(partial_columns(draft))
        return Merged(shape, cut, reads, accumulators, ddl, inputs, rows)

    def _counting_bytes(self, node: Aggregate, given: Mapping[str, str]) -> Aggregate:
        """Have variants told apart as Spark cannot."""
        if not any("variant" in given[arg] for call in node.calls for arg in call.args):
            return node
        rows = change(node.input, Everything()).after

        def kind_of(value: str) -> str:
            return self.types.of_sql(f"SELECT {value} AS c FROM ({rows})")["c"]

        calls = tuple(by_bytes(call, kind_of) for call in node.calls)
        return replace(node, calls=calls)

    def _result_types(self, node: Aggregate | Sessions) -> Mapping[str, str]:
        """Spark's own types for the calls, so that a merged result looks like a computed one."""
        if not node.calls:
            return {}
        rows = change(node.input, Everything()).after
        calls = ", ".join(f"{call.sql} AS {call.name}" for call in node.calls)
        return self.types.of_sql(f"SELECT {calls} FROM ({rows})")

    def _regrouped(self, node: Window | KeyedJoin) -> Maintained:
        if isinstance(node, Window):
            cut = self._cut(node.input)
            _refuse_keys(node.partition, self.types.types(cut))
            return self._regrouped_from(Window(cut, node.partition, node.items))
        left, right = self._light(node.left), self._light(node.right)
        return self._regrouped_from(replace(node, left=left, right=right))

    def _regrouped_from(self, node: Aggregate | Window | KeyedJoin) -> Regrouped:
        given: dict[str, str] = {}
        for each in children(node):
            given |= self.types.types(each)
        shape = self._shape(node, self._group_types(node))
        return Regrouped(shape, node, scanned(node), RowType.of(given))

    def _group_types(self, node: Aggregate | Window | KeyedJoin) -> Mapping[str, str]:
        match node:
            case Aggregate():
                return {**self.types.types(node.input), **self._result_types(node)}
            case Window():
                rows = change(node.input, Everything()).after
                items = ", ".join(f"{expression} AS {name}" for expression, name in node.items)
                found = self.types.of_sql(f"SELECT {items} FROM ({rows})")
                return {**self.types.types(node.input), **found}
            case KeyedJoin():
                return {**self.types.types(node.left), **self.types.types(node.right)}

    def _finished_sessions(self, node: Sessions) -> Node:
        """Sessions are kept as accumulators where there are some; what they say is linear."""
        shape = self._shared(node, self._sessioned)
        relation = next(each for each in self.relations if each.shape.name == shape.name)
        assert isinstance(relation, Sessioned)
        if relation.accumulators is None:
            return Scan(shape.name, tuple(zip(shape.columns, node.columns, strict=True)))
        types = self._result_types(relation.node)
        keys = (*node.keys, node.window)
        names = (*keys, *shape.columns[len(keys) :])
        items = [(column, column) for column in keys]
        for call, each in zip(node.calls, relation.accumulators.finishes, strict=True):
            items.append((f"CAST({each.over('')} AS {types[each.name]})", call.name))
        scan = Scan(shape.name, tuple(zip(shape.columns, names, strict=True)))
        return Project(scan, tuple(items))

    def _sessioned(self, node: Sessions) -> Sessioned:
        cut = replace(node, input=self._cut(node.input))
        given = self.types.types(cut.input)
        results = self._result_types(cut)
        rows = change(cut.input, Everything()).after
        window = f"SELECT SESSION_WINDOW({cut.time}, '{cut.gap}') AS {cut.window} FROM ({rows})"
        types = {**given, **self.types.of_sql(window)}
        names: tuple[str, ...] = cut.columns
        accumulators = None
        if mergeable(cut.calls, given):
            accumulators = Accumulators(cut.calls, given)
            folds = ", ".join(f"{each.partial} AS {each.name}" for each in accumulators.all)
            results = self.types.of_sql(f"SELECT {folds} FROM ({rows})")
            names = (*cut.keys, cut.window, *results)
        types |= results
        shape = Shape(self._name(), names, tuple(types[name] for name in names))
        inputs = RowType.of(given).only(cut.input.columns)
        return Sessioned(shape, cut, scanned(cut.input), accumulators, inputs)

    def _close(self, node: Close) -> Node:
        below = self._cut(node.input)
        if isinstance(below, Project):
            return Project(self._emitted(node, below.input), below.items)
        return self._emitted(node, below)

    def _emitted(self, node: Close, below: Node) -> Scan:
        assert isinstance(below, Scan)
        source = next(each for each in self.relations if each.shape.name == below.relation)

        def make(given: Close) -> Emitted:
            shape = Shape(self._name(), source.shape.columns, source.shape.types)
            return Emitted(shape, below, (below.relation,), given.horizon)

        shape = self._shared(node, make)
        names = (name for _, name in below.items)
        return Scan(shape.name, tuple(zip(shape.columns, names, strict=True)))

    def _aged(self, node: Aging) -> Aged:
        """Rows wait in a relation of their own until their time has come, and gone."""
        cut = self._cut(node.input)
        kept = self._stateful(node.input, lambda given: self._mapped(given, cut))
        types = self.types.types(cut)
        shape = Shape(self._name(), node.columns, tuple(types[name] for name in node.columns))
        return Aged(shape, replace(node, input=kept), (kept.relation,))

    def _limited(self, node: TopK) -> Limited:
        cut = TopK(self._cut(node.input), node.order, node.limit, node.offset)
        types = self.types.types(cut.input)
        ties = tuple(each for name in cut.columns for each in _tie_breakers(name, types[name]))
        return Limited(self._shape(cut, types), cut, scanned(cut.input), ties)

    def _recursed(self, node: Recursion) -> Recursed:
        base, step = self._light(node.base), self._cut_step(node.step, node.loop)
        cut = replace(node, base=base, step=step)
        return Recursed(Shape(self._name(), node.columns, node.types), cut, scanned(cut))

    def _cut_step(self, node: Node, loop: str) -> Node:
        """Cut what a step reads beside the rows that it is given; those stay in one statement."""
        if not reads_again(node, loop):
            return self._settled(self._light(node))
        return with_inputs(node, lambda each: self._cut_step(each, loop))

    def _settled(self, node: Node) -> Node:
        types = self.types.types(node)
        return Settled(node, tuple(types[column] for column in node.columns))


def _tie_breakers(column: str, kind: str) -> tuple[str, ...]:
    """Return what orders rows by a column: first as Spark does, then by bytes."""
    plain = () if "map<" in kind or kind == "variant" else (column,)
    return (*plain, tie_breaker(column, kind)) if is_coarse(kind) else plain


def _is_light(node: Node) -> bool:
    """Whether a plan is linear: cheap to take into each statement that reads it."""
    match node:
        case Scan() | Constant():
            return True
        case Filter() | Project() | Generate() | Reweigh():
            return _is_light(node.input)
        case UnionAll():
            return all(_is_light(each) for each in node.inputs)
        case _:
            return False


_FAMILIES = {
    "number": ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
    "text": ("string", "varchar", "char"),
}


def _family(kind: str) -> str:
    base = kind.split("(")[0]
    for family, members in _FAMILIES.items():
        if base in members:
            return family
    return kind


def _refuse_keys(keys: Iterable[str], types: Mapping[str, str]) -> None:
    """Refuse groups that no join finds again: VOID is not VOID there."""
    for key in keys:
        kind = types.get(key, "")
        if "map<" in kind or "variant" in kind or kind == "void":
            raise NoRule(Reason.MAP_KEY, f"groups by a {kind}, which has no comparison")
