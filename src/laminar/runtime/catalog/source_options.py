"""What may be said about the way into the engine, for any source: `CREATE SOURCE ... WITH (...)`.

No connector sees these options, and `DESCRIBE CONNECTOR` lists them behind its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from laminar.bridge import (
    BackpressureStrategy,
    BatchPolicy,
    DropNewest,
    PauseSource,
    SpillToDisk,
)
from laminar.bridge.pipeline import CAPACITY_BYTES, CAPACITY_ROWS
from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.options import Options
from laminar.connectors.source import Source, takes_back
from laminar.errors import NotSupported
from laminar.runtime.catalog.definitions import TableDefinition

CALL_TIMEOUT_MS = 60_000
"""How long a call may take if neither the source nor a setting says so."""

_T = OptionType


def _free(
    name: str, about: str, kind: OptionType, default: str = "", choices: tuple[str, ...] = ()
) -> Option:
    return Option(name, about, kind, default, choices, is_alterable=True)


OPTIONS = (
    _free(
        "backpressure",
        "what to do when the bridge is full",
        _T.CHOICE,
        "pause",
        ("pause", "drop", "spill"),
    ),
    _free("max_spill_bytes", "spill: how many bytes of files", _T.INTEGER, "1 GiB"),
    _free("after_spill", "spill: what to do then", _T.CHOICE, "pause", ("pause", "drop")),
    _free("buffer_rows", "how many rows may wait in memory", _T.INTEGER, str(CAPACITY_ROWS)),
    _free("buffer_bytes", "how many bytes may wait in memory", _T.INTEGER, "128 MiB"),
    _free("max_rows", "close a batch at so many rows", _T.INTEGER, "100000"),
    _free("max_bytes", "close a batch at so many bytes", _T.INTEGER, "64 MiB"),
    _free("max_latency", "close a batch so long after its first row", _T.DURATION, "20 ms"),
    _free(
        "flush_on_watermark",
        "close a batch before a watermark that was said",
        _T.BOOLEAN,
        "true",
    ),
    _free(
        "call_timeout",
        "how long a call into the connector may take",
        _T.DURATION,
        "laminar.call_timeout_ms",
    ),
    _free(
        "poll_interval", "how long to wait after a poll that found nothing", _T.DURATION, "100 ms"
    ),
    Option(
        "idle_timeout",
        "after how much silence the source no longer holds back watermarks",
        _T.DURATION,
    ),
    Option("watermark_alignment_group", "sources that wait for the slowest of them"),
    Option("max_drift", "how far one may be ahead of the slowest", _T.DURATION, "1 minute"),
    Option(
        "retain",
        "all rows and columns, or only those that views use",
        _T.CHOICE,
        "all",
        ("all", "used"),
    ),
)
"""What is not alterable stays: what is kept of rows, and when windows close, hangs on it."""

OWN = frozenset(each.name for each in OPTIONS)
"""Options that no connector sees."""

FIXED = frozenset(each.name for each in OPTIONS if not each.is_alterable)
"""Those of them that stay."""


@dataclass(frozen=True, slots=True)
class InletOptions:
    """How rows of one source come in; its connector sees none of this."""

    policy: BatchPolicy = field(default_factory=BatchPolicy)
    strategy: BackpressureStrategy = field(default_factory=PauseSource)
    buffer_rows: int | None = CAPACITY_ROWS
    buffer_bytes: int | None = CAPACITY_BYTES
    call_timeout_ms: int | None = None
    poll_interval_ms: int = 100
    idle_timeout_ms: int | None = None
    alignment_group: str | None = None
    max_drift_us: int = 0
    keeps_all: bool = True


def for_connector(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that a connector reads."""
    return {name: value for name, value in options.items() if name.lower() not in OWN}


def parse(options: Mapping[str, str], *, pushed: bool) -> InletOptions:
    """Read the options that are about the way in; the rest is for the connector.

    Args:
        options: all that was given.
        pushed: whether rows come from `insert`. They lie on disk until an epoch takes them, so
            without an option there is no bound.

    Raises:
        BadOption: a value does not do.
        UnknownOption: an option says nothing without another one.
    """
    given = {name.lower(): value for name, value in options.items() if name.lower() in OWN}
    own = Options("source", given)
    default = BatchPolicy()
    policy = BatchPolicy(
        max_rows=own.integer("max_rows", default.max_rows, at_least=1),
        max_latency=own.duration("max_latency", default.max_latency),
        flush_on_watermark=own.boolean("flush_on_watermark", default=default.flush_on_watermark),
        max_bytes=own.integer("max_bytes", default.max_bytes, at_least=1),
    )
    bound = "backpressure" in own and own["backpressure"].lower() != "spill"
    rows = CAPACITY_ROWS if bound or not pushed else None
    group = own.get("watermark_alignment_group")
    idle = own.duration("idle_timeout", timedelta(0))
    if "idle_timeout" in own and idle <= timedelta(0):
        raise own.bad("idle_timeout", "a duration such as 30 seconds")
    call_timeout = own.duration("call_timeout", timedelta(0))
    if "call_timeout" in own and call_timeout < timedelta(milliseconds=1):
        raise own.bad("call_timeout", "a duration such as 30 seconds")
    found = InletOptions(
        policy,
        _strategy(own),
        own.limit("buffer_rows") or rows,
        own.limit("buffer_bytes") or CAPACITY_BYTES,
        _millis(call_timeout) if "call_timeout" in own else None,
        _millis(own.duration("poll_interval", timedelta(milliseconds=100))),
        _millis(idle) if "idle_timeout" in own else None,
        group,
        0 if group is None else _micros(own.duration("max_drift", timedelta(minutes=1))),
        own.choice("retain", ("all", "used"), "all") == "all",
    )
    own.refuse_leftovers()
    for name in ("poll_interval", "call_timeout"):
        if pushed and name in own:
            raise NotSupported(f"{name} without a connector", "leave it out")
    return found


def _strategy(own: Options) -> BackpressureStrategy:
    words: dict[str, BackpressureStrategy] = {"pause": PauseSource(), "drop": DropNewest()}
    chosen = own.choice("backpressure", ("pause", "drop", "spill"), "pause")
    if chosen != "spill":
        return words[chosen]
    return SpillToDisk(
        own.integer("max_spill_bytes", 1 << 30, at_least=1),
        words[own.choice("after_spill", ("pause", "drop"), "pause")],
    )


def may_drop(strategy: BackpressureStrategy) -> bool:
    """Whether rows may be let go for want of room."""
    last = strategy.then if isinstance(strategy, SpillToDisk) else strategy
    return isinstance(last, DropNewest)


def refuse_in_part(definition: TableDefinition, source: Source) -> None:
    """Refuse to keep only a part of the rows of a source that takes some back.

    What was let go could not be taken back any more.

    Raises:
        NotSupported: its options ask for that.
    """
    options = parse(definition.options, pushed=False)
    word = "retain" if not options.keeps_all else "backpressure"
    if takes_back(source) and (not options.keeps_all or may_drop(options.strategy)):
        what = f"{word} = '{definition.options[word]}' of a source that takes rows back"
        raise NotSupported(what, "keep all of its rows: leave the option out")


def _millis(given: timedelta) -> int:
    return given // timedelta(milliseconds=1)


def _micros(given: timedelta) -> int:
    return given // timedelta(microseconds=1)


def to_options(
    policy: BatchPolicy | None = None, strategy: BackpressureStrategy | None = None
) -> dict[str, str]:
    """Return what was given as Python values in the words of the options."""
    found: dict[str, str] = {}
    if policy is not None:
        found = {
            "max_rows": str(policy.max_rows),
            "max_bytes": str(policy.max_bytes),
            "max_latency": f"{policy.max_latency // timedelta(microseconds=1)} us",
            "flush_on_watermark": str(policy.flush_on_watermark).lower(),
        }
    words = {PauseSource: "pause", DropNewest: "drop", SpillToDisk: "spill"}
    if strategy is not None:
        found["backpressure"] = words[type(strategy)]
    if isinstance(strategy, SpillToDisk):
        found["max_spill_bytes"] = str(strategy.max_spill_bytes)
        found["after_spill"] = words[type(strategy.then)]
    return found


_OF_SPILLING = ("max_spill_bytes", "after_spill")


def changed(options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return options with some set anew; those that only spilling has go with it.

    Names of ours ignore case, so one that is set anew takes the place of any spelling.
    """
    every = [*options.items(), *given.items()]
    found = {name.lower() if name.lower() in OWN else name: value for name, value in every}
    if found.get("backpressure", "pause").lower() != "spill":
        found = {name: value for name, value in found.items() if name not in _OF_SPILLING}
    return found
