"""How sources are doing: which are away and when they are tried again, and what is shown of all.

A source is away if its connector could not be built, or does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from laminar.errors import ConnectorHung, LaminarError, RowDoesNotFit, SourceAway
from laminar.errors.secrets import told
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.connector_building import Building
from laminar.store.source_notes import SourceNotes

if TYPE_CHECKING:  # the console shows how sources are doing, and loads no Spark for that
    from laminar.runtime.catalog.catalog import Defined
    from laminar.runtime.ingest.inlet import Positions
    from laminar.runtime.ingest.open_inlets import OpenInlets

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0

AWAY, FAILING = "away", "failing"

NOT_GIVEN = "it is an object of Python code: run the DAG again that it is part of"
"""Why a source is away that nobody has handed in since the database was opened."""


def pause_after(attempts: int) -> float:
    """Return how many seconds pass before the next try: twice as long each time, up to a minute."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempts - 1, 10))


def reason_of(error: BaseException) -> str:
    """Return what went wrong in one line, without rows and secrets."""
    if not isinstance(error, LaminarError):
        return told(f"{type(error).__name__}: {error}".splitlines()[0][:500])
    detail = "" if isinstance(error, RowDoesNotFit) or not error.detail else f": {error.detail}"
    return told(f"{error.code}: {error.message}{detail}".replace("\n", " ")[:500])


@dataclass(frozen=True, slots=True)
class Away:
    """Why a source is away, and when it is tried again."""

    reason: str
    attempts: int
    next_try: float
    """By the clock of the bridges, in seconds."""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source is doing."""

    state: str
    """`running`, `gated`, `failing` (it is asked again, later each time) or `away`."""
    reason: str | None = None
    attempts: int = 0
    next_try_ms: int | None = None
    """Milliseconds from 1970."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values that the constructor takes."""
        return asdict(self)


class AwaySources:
    """Those of one database.

    Whoever steps, polls or resumes tries those again that are due. A constructor that hangs is not
    called again before it has returned.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, Away] = {}
        self._building: dict[str, Building] = {}
        self.hung: dict[str, int] = {}
        """Source -> how many calls have missed their deadline since the database was opened."""

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def get(self, name: str) -> Away | None:
        """Return how a source is away; None if it is not."""
        return self._known.get(name)

    def all(self) -> dict[str, Away]:
        """Return all of them."""
        return dict(self._known)

    def error(self, name: str) -> SourceAway:
        """Return what to raise for who needs its rows now."""
        known = self._known.get(name)
        return SourceAway(name, "it is gone" if known is None else known.reason)

    def note(self, name: str, error: BaseException) -> None:
        """Note that a source is away, once more."""
        if isinstance(error, ConnectorHung):
            self.hung[name] = self.hung.get(name, 0) + 1
        known = self._known.get(name)
        attempts = 1 if known is None else known.attempts + 1
        self._known[name] = Away(reason_of(error), attempts, self._clock() + pause_after(attempts))

    def again(self, name: str) -> None:
        """Note that a source has been tried once more, for the same reason."""
        known = self._known[name]
        attempts = known.attempts + 1
        due = self._clock() + pause_after(attempts)
        self._known[name] = Away(known.reason, attempts, due)

    def due(self) -> list[str]:
        """Return the sources that may be tried again."""
        now = self._clock()
        return [name for name, each in tuple(self._known.items()) if each.next_try <= now]

    def hurry(self, name: str) -> None:
        """Let a source be due at once, as if it had not been tried before."""
        known = self._known.get(name)
        if known is not None:
            self._known[name] = Away(known.reason, 0, self._clock())

    def begin(self, definition: TableDefinition) -> Building:
        """Return the connector that is on its way; it is begun if none of this definition is."""
        found = self._building.get(definition.name)
        if found is None or (found.is_done and found.definition != definition):
            if found is not None:
                found.abandon()
            found = self._building[definition.name] = Building(definition)
        return found

    def taken(self, name: str) -> None:
        """Forget a connector that has come, or failed to."""
        self._building.pop(name, None)

    def forget(self, name: str) -> None:
        """Forget a source: it is back, or dropped."""
        self._known.pop(name, None)
        building = self._building.pop(name, None)
        if building is not None:
            building.abandon()


class HealthReport:
    """What is shown of the sources that a connector brings rows to.

    Args:
        defined: the tables.
        ledger: says which sources are gated.
        ways: the ways in that are open.
        away: the sources that have none.
        notes: where others read it who only have the folder.
        clock: seconds, as ways in count them.
        wall: milliseconds from 1970.
    """

    def __init__(
        self,
        defined: Defined,
        ledger: Positions,
        ways: OpenInlets,
        away: AwaySources,
        notes: SourceNotes,
        clock: Callable[[], float],
        wall: Callable[[], int],
    ) -> None:
        self._defined = defined
        self._ledger = ledger
        self._ways = ways
        self._away = away
        self._notes = notes
        self._clock = clock
        self._wall = wall

    def all(self) -> dict[str, SourceHealth]:
        """Return how each of them is doing."""
        gated = self._ledger.manifest.state.gated
        return {
            name: self._of(name, is_gated=name in gated)
            for name, each in self._defined.tables().items()
            if each.connector is not None
        }

    def note(self) -> None:
        """Let those know who read the folder which sources do not run, and why."""
        found = self.all().items()
        broken = {name: each for name, each in found if each.state in (AWAY, FAILING)}
        self._notes.write({name: each.to_json() for name, each in broken.items()})

    def _of(self, name: str, *, is_gated: bool) -> SourceHealth:
        away, inlet = self._away.get(name), self._ways.get(name)
        if away is not None:
            return SourceHealth(AWAY, away.reason, away.attempts, self._at(away.next_try))
        from laminar.runtime.ingest.connector_inlet import SourceInlet  # where there is one

        if isinstance(inlet, SourceInlet) and inlet.error is not None:
            at = self._at(inlet.next_poll)
            return SourceHealth(FAILING, reason_of(inlet.error), inlet.failures, at)
        return SourceHealth("gated" if is_gated else "running")

    def _at(self, due: float) -> int:
        """Return a time of the ways in as milliseconds from 1970."""
        return self._wall() + round((due - self._clock()) * 1000)
