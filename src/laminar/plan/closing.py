"""Where in a plan the windows are whose end a view waits for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from laminar.model.event_time import Chain, Chains, Shift, Side, Timing
from laminar.model.local_days import DAY, days_vary
from laminar.plan.nodes import (
    Aggregate,
    Anti,
    Close,
    Filter,
    Generate,
    Horizon,
    Join,
    KeyedJoin,
    Node,
    Project,
    Recursion,
    Reweigh,
    Scan,
    Sessions,
    Timely,
    children,
)
from laminar.plan.progress import Flow, Flows, Known, flows
from laminar.plan.rewrite import with_inputs


class NotClosable(Exception):
    """Raised while planning: no window of this query is ever over."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How to find the rows of a change that are late, over the plan below the grouping."""

    node: Node
    scan: Scan
    time: str
    is_once: str
    horizon: Horizon
    in_session: str | None = None  # when a row of the plan is in a session that is kept


def times_of(timings: Mapping[str, Timing]) -> dict[str, frozenset[str]]:
    """Return relation -> columns that carry event time."""
    return {name: frozenset(timing.columns) for name, timing in timings.items()}


def chained(found: Flows, timings: Mapping[str, Timing], lateness: int) -> Chains:
    """Return how a column follows from the watermark of a view that allows some lateness."""
    chains: list[Chain] = []
    for flow in found:
        for chain in timings[flow.relation].columns[flow.column]:
            chains.append(chain.then(flow.steps, lateness))
    return tuple(dict.fromkeys(chains))


class Closer:
    """Bounds the groups of one view's plan.

    Args:
        view: its name.
        timings: which columns of which relations carry event time.
        lateness: microseconds that a row may come after its window is over.
        closes: only windows that are over are shown.
        final: only windows that can no longer change are shown.
        zone: the time zone of the session.
    """

    def __init__(
        self,
        view: str,
        timings: Mapping[str, Timing],
        lateness: int,
        *,
        closes: bool,
        final: bool = False,
        zone: str = "UTC",
    ) -> None:
        self._view = view
        self._timings = timings
        self._times = times_of(timings)
        self._lateness = lateness
        self._closes = closes
        self._final = final
        self._days_vary = days_vary(zone)
        self.lateness: Lateness | None = None

    def timing(self, node: Node, names: tuple[str, ...]) -> Timing:
        """Return which columns of the view carry event time on; `names` are its columns."""
        found: dict[str, Chains] = {}
        known = self._flows(node)
        for column, name in zip(node.columns, names, strict=True):
            for path, of in known.items():
                if path.split(".")[0] == column:
                    found[name + path[len(column) :]] = self._chained(of)
        return Timing(found)

    def _flows(self, node: Node) -> Known:
        """Return the columns that carry event time.

        How far one that is moved by days has come, in a zone with summer time, no length can say.
        """
        known = flows(node, self._times)
        if not self._days_vary:
            return known
        return {path: found for path, found in known.items() if not any(map(_by_days, found))}

    def _chained(self, found: Flows) -> Chains:
        chains = chained(found, self._timings, self._lateness)
        if self._final:
            chains = tuple(Chain(each.final, each.final) for each in chains)
        return chains

    def bound(self, node: Node) -> Node:
        """Return the plan with final windows left alone and open ones held back."""
        match node:
            case Filter() | Project() | Generate() | Reweigh():
                return with_inputs(node, self.bound)
            case Aggregate():
                return self._aggregate(node)
            case Sessions():
                return self._sessions(node)
            case _:
                raise NotClosable("its query does more than group by a window")

    def _aggregate(self, node: Aggregate) -> Node:
        known = self._flows(node)
        path = _end_of(node, known)
        horizon = self._horizon(path, known[path], node.input)
        self._find_late(node.input, path, known)
        bounded: Node = replace(node, input=Timely(node.input, horizon))
        return Close(bounded, horizon) if self._closes else bounded

    def _sessions(self, node: Sessions) -> Node:
        known = self._flows(node)
        path = f"{node.window}.{Side.END}"
        if path not in known:
            raise NotClosable("its window is over a column without a watermark")
        horizon = self._horizon(path, known[path], node.input)
        self._find_late(node.input, path, known, node)
        bounded = replace(node, horizon=horizon)
        return Close(bounded, horizon) if self._closes else bounded

    def _horizon(self, path: str, found: Flows, given: Node) -> Horizon:
        return Horizon(
            self._view,
            path,
            self._chained(found),
            tuple((flow.relation, flow.column, flow.steps) for flow in found),
            direct=is_direct(given),
        )

    def _find_late(
        self, given: Node, path: str, known: Known, session: Sessions | None = None
    ) -> None:
        if not isinstance(given, Project):
            return
        key = path.split(".")[0]
        written = {name: expression for expression, name in given.items}[key]
        time, is_once, at = written, "true", path
        if session is None and path != key:
            at = f"{key}.{Side.START}"
            call = re.match(r"`?window`?\((c\d+),", written, re.IGNORECASE)
            if call:
                time = call.group(1)
            else:
                # CUMULATE: of the windows that begin together, the longest tells.
                time = f"{written}.start"
                is_once = _longest(given.input, written)
        in_session = None
        if session is not None:
            in_session = _in_session(session, given)
            time = f"{written} + CAST('{session.gap}' AS INTERVAL)"
        relation = known[path][0].relation
        scans = [each for each in _leaves(given.input) if each.relation == relation]
        if scans:
            horizon = self._horizon(at, known[at], given)
            self.lateness = Lateness(given.input, scans[0], time, is_once, horizon, in_session)


def _by_days(flow: Flow) -> bool:
    return any(isinstance(step, Shift) and abs(step.by) >= DAY for step in flow.steps)


def _in_session(session: Sessions, given: Project) -> str:
    written = {name: expression for expression, name in given.items}
    time, window = written[session.time], session.window
    keys = [f"{written[key]} <=> {key}" for key in session.keys]
    return " AND ".join([*keys, f"{window}.start <= {time}", f"{time} < {window}.end"])


def _end_of(node: Aggregate, known: Known) -> str:
    ends = [f"{key}.{Side.END}" for key in node.keys if f"{key}.{Side.END}" in known]
    plain = [key for key in node.keys if key in known]
    if not ends and not plain:
        raise NotClosable("it groups by no window, or by one over a column without a watermark")
    return (ends or plain)[0]


def _leaves(node: Node) -> list[Scan]:
    if isinstance(node, Scan):
        return [node]
    return [leaf for each in children(node) for leaf in _leaves(each)]


def is_direct(node: Node) -> bool:
    """Whether a changed row is made of changed rows only: no join brings back others."""
    if isinstance(node, Join | KeyedJoin | Anti | Recursion):
        return False
    return all(is_direct(each) for each in children(node))


def _longest(node: Node, produced: str) -> str:
    """Render the test for the window of CUMULATE that all the others are parts of."""
    while not (isinstance(node, Generate) and produced in node.produced):
        below = children(node)
        if len(below) != 1:
            return "true"
        node = below[0]
    size = re.search(r"PMOD\(.*?, (\d+)\) DIV", node.generator, re.IGNORECASE | re.DOTALL)
    if size is None:
        return "true"
    ends, starts = f"UNIX_MICROS({produced}.end)", f"UNIX_MICROS({produced}.start)"
    return f"{ends} - {starts} = {size.group(1)}"
