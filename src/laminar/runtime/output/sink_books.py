"""The books of all sinks: which there are, who works for each, and how far it has come.

Law: what is known is replaced as a whole, under `_lock`, so whoever reads it needs no lock. A
cursor is moved only by the sink that is known by its name now: one that was dropped moves none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laminar.runtime.output.outlet import Change, Outlet
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sink_state import SinkState, opened, stored_state

if TYPE_CHECKING:
    from laminar.runtime.history.timeline import Snapshot
    from laminar.store.cursors import Cursor, CursorStore

Known = Mapping[str, SinkDefinition]


class SinkBooks:
    """What is known of the sinks of a database; which there are is changed in the writer's turn.

    Args:
        snapshot: what readers see now.
        cursors: how far each sink has come, on disk.
        clock: seconds, never going back.
        wall: milliseconds from 1970, to be shown.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        cursors: CursorStore,
        clock: Callable[[], float],
        wall: Callable[[], int],
    ) -> None:
        self._snapshot = snapshot
        self._cursors = cursors
        self._clock = clock
        self._wall = wall
        self._defined: Known = {}
        self._outlets: Mapping[str, Outlet] = {}
        self._ending: tuple[Outlet, ...] = ()
        self._lock = threading.Lock()
        self._held = 1
        """How many say that no sink may look at what is committed: opening is the first."""
        self.on_room: Callable[[], object] = lambda: None
        """Called when a sink has taken something that holds the epochs."""

    # Which there are

    @property
    def defined(self) -> Known:
        """All sinks, first defined first."""
        return self._defined

    def sinks(self) -> Sequence[SinkDefinition]:
        """Return all sinks, first defined first."""
        return tuple(self._defined.values())

    def of(self, relations: Iterable[str]) -> list[str]:
        """Return the sinks of some relations."""
        wanted = set(relations)
        return [each.name for each in self.sinks() if each.relation in wanted]

    def tapped(self) -> frozenset[str]:
        """Return the relations whose changes some sink wants."""
        return frozenset(each.relation for each in self.sinks())

    def know(self, found: Known, same: Iterable[str]) -> None:
        """Know other sinks, those of another state.

        Args:
            found: all that there are.
            same: those that go on as they are.
        """
        with self._lock:
            self._defined = found
            for name in set(same) & self._outlets.keys():
                self._outlets[name].definition = found[name]

    @contextmanager
    def knowing(self, found: Known, anew: str | None = None) -> Iterator[None]:
        """Know other sinks, if the commit inside succeeds.

        Args:
            found: all that there are then.
            anew: one of them that starts from the beginning.
        """
        before = self._defined
        with self._lock:  # from now on cursors of sinks that are not among them stay where they are
            taken = self._forgotten(anew)
            self._defined = found
        try:
            yield
        except BaseException:
            with self._lock:
                self._defined = before
                if taken is not None and taken.consumer in before:
                    self._cursors.advance(taken.consumer, taken.epoch, taken.about)
            self.wake()
            raise

    def _forgotten(self, name: str | None) -> Cursor | None:
        """Forget how far a sink had come; return it."""
        if name is None:
            return None
        taken = self._cursors.get(name)
        self._cursors.forget(name)
        return taken

    def forget_cursors(self) -> None:
        """Forget how far sinks had come that were removed, now that this is committed."""
        with self._lock:
            self._cursors.keep_only(self._defined)

    # Who works for them

    @property
    def outlets(self) -> Mapping[str, Outlet]:
        """Sink -> who works for it; none for those of another process."""
        return self._outlets

    @property
    def ending(self) -> tuple[Outlet, ...]:
        """Those that were told to end, and may still be called."""
        return self._ending

    def enter(
        self, sink: SinkDefinition, make: Callable[[SinkState, Outlet | None], Outlet]
    ) -> Outlet:
        """Return who works for a sink from now on.

        Args:
            sink: the sink.
            make: makes it of where the sink stood last, and who ends in its place.
        """
        with self._lock:
            found = self._cursors.get(sink.name)
            stored = stored_state({} if found is None else found.about, sink.from_epoch)
            after = next((e for e in reversed(self._ending) if e.name == sink.name), None)
            made = make(opened(stored), after)
            self._outlets = {**self._outlets, sink.name: made}
        return made

    def retire(self, names: Iterable[str]) -> None:
        """Let sinks end, each after what it is doing; nobody waits for that."""
        gone = set(names)
        with self._lock:
            ended = [each for name, each in self._outlets.items() if name in gone]
            self._outlets = {n: each for n, each in self._outlets.items() if n not in gone}
            self._ending = (*(e for e in self._ending if not e.runner.is_over), *ended)
        for each in ended:
            each.runner.stop()

    def retire_all(self) -> None:
        """Let all of them end, and no sink look at anything any more."""
        with self._lock:
            self._held += 1
            self._defined = {}
        self.retire(self._outlets)

    def forget_ended(self) -> None:
        """Forget those that have ended."""
        with self._lock:
            self._ending = tuple(each for each in self._ending if not each.runner.is_over)

    def wake(self) -> None:
        """Let all sinks look up."""
        for each in self._outlets.values():
            each.runner.wake()

    # What they may be told

    @property
    def is_held(self) -> bool:
        """Whether no sink may look at what is committed."""
        return self._held > 0

    def start(self) -> None:
        """Let sinks be called: what they may be told is whole from now on."""
        with self._lock:
            self._held -= 1
        self.wake()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no sink look at what is committed: it is not whole before the end."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            self.start()

    def view(self, outlet: Outlet) -> Snapshot | None:
        """Return what a sink may be told of now; None if it is not to be called."""
        with self._lock:  # whoever holds sinks has it before anything is shown that is not whole
            return self._snapshot() if self._is_known(outlet) and not self._held else None

    def _is_known(self, outlet: Outlet) -> bool:
        """Whether it has not been dropped meanwhile, and there is no other one of its name."""
        name = outlet.name
        is_defined = self._defined.get(name) is outlet.definition
        return is_defined and self._outlets.get(name) is outlet

    # How far they have come

    def cursor(self, name: str) -> int | None:
        """Return the last epoch that a sink has taken.

        A cursor from before it began is that of another one of its name, which a restore replaced.
        """
        found, known = self.stored(name), self._defined.get(name)
        if found is None or (known is not None and found.epoch < known.from_epoch):
            return None
        return found.epoch

    def stored(self, name: str) -> Cursor | None:
        """Return what was last written down of a sink."""
        with self._lock:
            return self._cursors.get(name)

    def note(self, outlet: Outlet, change: Change, epoch: int | None = None) -> bool:
        """Note where a sink stands, and an epoch it has taken; False if it is not there any more.

        In memory it is noted in any case; an error says that it is not on disk.
        """
        with self._lock:
            if not self._is_known(outlet):
                return False
            state, start = change(outlet.state), outlet.definition.from_epoch
            found = self._cursors.get(outlet.name)
            is_own = found is not None and found.epoch >= start
            taken = found.epoch if found is not None and is_own else start - 1
            if epoch is None:
                outlet.state = state
            about = state.about(start, self.next_try(state))
            self._cursors.advance(outlet.name, taken if epoch is None else epoch, about)
            outlet.state = state
        if epoch is not None and outlet.rule.holds:
            self.on_room()
        return True

    def next_try(self, state: SinkState) -> int | None:
        """Return when a sink is tried again, by the wall clock; None if it does not wait for it."""
        if not state.is_failing:
            return None
        return self._wall() + int(1000 * max(0.0, state.retry_at - self._clock()))
