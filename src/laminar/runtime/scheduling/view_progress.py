"""Where every view stands, as data that a manifest carries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from laminar.errors import NoCommonEpoch
from laminar.model.state import EngineState
from laminar.mv.retry import Failure


@dataclass(frozen=True, slots=True)
class ViewProgress:
    """What must be remembered of the views besides their rows."""

    behind: Mapping[str, int] = field(default_factory=dict)
    """View -> the epoch its rows are of; views that are at the newest epoch are not listed."""
    filled: Mapping[str, int] = field(default_factory=dict)
    """View -> the epoch at which its rows begin: before that there is nothing to read."""
    failures: Mapping[str, Failure] = field(default_factory=dict)
    """View -> how it failed the last time it was tried."""
    gated: frozenset[str] = frozenset()
    """Sources whose rows no view may see yet."""
    stepped_ms: Mapping[str, int] = field(default_factory=dict)
    """View with a schedule -> when it last stepped, in milliseconds from 1970."""
    commits: Mapping[str, int] = field(default_factory=dict)
    """View -> how often its group has committed."""

    def cursor(self, view: str, epoch: int) -> int:
        """Return the epoch that a view's rows are of, while the newest is `epoch`."""
        return self.behind.get(view, epoch)

    def reach(self, names: Iterable[str], epoch: int) -> int:
        """Return the newest epoch that all of some relations have; tables have all up to `epoch`.

        That they have it does not mean that they can be read there together: see `require`.
        """
        return min((self.cursor(each, epoch) for each in names), default=epoch)

    def require(
        self, names: Iterable[str], at: int, among: Sequence[str], *, reader: str = ""
    ) -> None:
        """Refuse to read relations together at an epoch if one of them begins after it.

        Args:
            names: all that would be read.
            at: the epoch, which is behind because of one of `among`.
            among: the relations that were asked for; the message names the slowest.
            reader: the view that would read them.

        Raises:
            NoCommonEpoch: one begins later.
        """
        for name in names:
            begins = self.filled.get(name, 0)
            if begins > at:
                slowest = min(among, key=lambda each: self.cursor(each, begins))
                raise NoCommonEpoch(name, begins, slowest, at, reader=reader)

    def live(self) -> frozenset[int]:
        """Return the epochs before the newest that some view stands at."""
        return frozenset(self.behind.values())

    def only(self, views: Iterable[str], tables: Iterable[str]) -> ViewProgress:
        """Return this without relations that are gone."""
        known = set(views)
        return ViewProgress(
            behind={k: v for k, v in self.behind.items() if k in known},
            filled={k: v for k, v in self.filled.items() if k in known},
            failures={k: v for k, v in self.failures.items() if k in known},
            gated=self.gated & frozenset(tables),
            stepped_ms={k: v for k, v in self.stepped_ms.items() if k in known},
            commits={k: v for k, v in self.commits.items() if k in known},
        )

    def with_filled(self, views: Iterable[str], at: int, epoch: int, now_ms: int) -> ViewProgress:
        """Return this after views were computed from nothing at an epoch."""
        names = list(views)
        behind = {k: v for k, v in self.behind.items() if k not in names}
        if at < epoch:
            behind |= dict.fromkeys(names, at)
        return replace(
            self,
            behind=behind,
            filled={**self.filled, **dict.fromkeys(names, at)},
            failures={k: v for k, v in self.failures.items() if k not in names},
            stepped_ms={**self.stepped_ms, **dict.fromkeys(names, now_ms)},
        )

    def saved(self, state: EngineState) -> EngineState:
        """Return what a manifest carries, with this in it."""
        return replace(
            state,
            behind=self.behind,
            filled=self.filled,
            failures={view: asdict(each) for view, each in self.failures.items()},
            gated=self.gated,
            stepped_ms=self.stepped_ms,
            commits=self.commits,
        )

    @classmethod
    def from_state(cls, state: EngineState) -> ViewProgress:
        """Read it back from what a manifest carries."""
        return cls(
            behind=state.behind,
            filled=state.filled,
            failures={view: Failure(**each) for view, each in state.failures.items()},
            gated=state.gated,
            stepped_ms=state.stepped_ms,
            commits=state.commits,
        )
