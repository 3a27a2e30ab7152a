"""What a user declares about a sink: its connector, and how far it may fall behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.options import Options
from laminar.connectors.sink import AT_LEAST_ONCE

MAX_LAG, ON_LAG = "max_lag_epochs", "on_lag"
_SUSPEND, _HOLD = "suspend", "hold"
OPTIONS = (
    Option(
        MAX_LAG,
        "how many epochs it may be behind what it reads; 0 is no bound",
        OptionType.INTEGER,
        "1000",
        at_least=0,
        is_alterable=True,
    ),
    Option(
        ON_LAG,
        "what happens then: it is left alone until RESUME SINK, and epochs are no longer kept for "
        "it; or no epoch begins until it has taken some",
        OptionType.CHOICE,
        _SUSPEND,
        choices=(_SUSPEND, _HOLD),
        is_alterable=True,
    ),
)
"""Options that no connector sees."""

_OWN = frozenset(each.name for each in OPTIONS)


@dataclass(frozen=True, slots=True)
class LagRule:
    """How many epochs a sink may be behind, and what happens then."""

    most: int = 1000
    """0 is no bound."""
    holds: bool = False
    """Whether epochs wait for it then; otherwise it is suspended."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LagRule:
        """Read it from a sink's options.

        Raises:
            BadOption: a value does not do, or says nothing.
        """
        own = Options("sink", {n.lower(): v for n, v in options.items() if n.lower() in _OWN})
        most = own.integer(MAX_LAG, 1000, at_least=0)
        if ON_LAG in own and most == 0:
            raise own.bad(ON_LAG, f"nothing where {MAX_LAG} is 0: there is no bound to reach")
        return cls(most, own.choice(ON_LAG, (_SUSPEND, _HOLD), _SUSPEND) == _HOLD)


@dataclass(frozen=True, slots=True)
class SinkDefinition:
    """A sink; it starts with all rows its relation has at the epoch it is created in."""

    name: str
    relation: str
    connector: str
    options: Mapping[str, str] = field(default_factory=dict)
    from_epoch: int = 0
    promise: str = AT_LEAST_ONCE
    sql: str = ""
    born: str = ""
    """When it was created, whatever was altered since; empty if an older version did."""

    @property
    def built_from(self) -> tuple[object, ...]:
        """What its connector is built from: as long as that stays, the connector may stay."""
        return self.name, self.relation, self.connector, dict(self.options)

    @property
    def rule(self) -> LagRule:
        """How far it may fall behind."""
        return LagRule.of(self.options)

    @property
    def for_connector(self) -> dict[str, str]:
        """The options that its connector reads."""
        return {name: each for name, each in self.options.items() if name.lower() not in _OWN}


def merged(before: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return options with others in their place; names ignore case."""
    spelled = {name.lower(): name for name in before}
    return {**before, **{spelled.get(name.lower(), name): each for name, each in given.items()}}
