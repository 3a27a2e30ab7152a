"""What windows should show, by plain Python: rows in arrival batches, and a watermark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Row = tuple[str, int, int]
"""Key, value, time in seconds."""
Window = tuple[int, int]
Numbered = tuple[int, int, int]
"""Time, number of arrival, value: in the order that FIRST and LAST go by."""


def tumble(size: int, offset: int = 0) -> Callable[[int], list[Window]]:
    """Windows of a time."""
    return hop(size, size, offset)


def hop(size: int, slide: int, offset: int = 0) -> Callable[[int], list[Window]]:
    """Windows of a time."""

    def windows(time: int) -> list[Window]:
        last = (time - offset) // slide * slide + offset
        return [(start, start + size) for start in range(last, time - size, -slide)]

    return windows


def cumulate(step: int, size: int) -> Callable[[int], list[Window]]:
    """Windows of a time."""

    def windows(time: int) -> list[Window]:
        start = time // size * size
        ends = range(start + step, start + size + 1, step)
        return [(start, end) for end in ends if end > time]

    return windows


def summed(rows: list[Numbered]) -> tuple[int, int, int, int]:
    """COUNT, SUM, FIRST and LAST."""
    ordered = sorted(rows)
    return len(rows), sum(row[2] for row in rows), ordered[0][2], ordered[-1][2]


@dataclass
class Clock:
    """A source's watermark; `before` is where the epoch began."""

    delay: int
    mark: int | None = None
    before: int | None = None

    def move(self, times: list[int], said: int | None = None) -> None:
        """Run an epoch."""
        self.before = self.mark
        known = [time - self.delay for time in times] + ([] if said is None else [said])
        self.mark = max([*known, *([] if self.mark is None else [self.mark])], default=None)


@dataclass
class Windows:
    """Windows of fixed places, shown when they are over."""

    windows: Callable[[int], list[Window]]
    lateness: int = 0
    final: bool = False
    late: int = 0
    groups: dict[tuple[str, Window], list[Numbered]] = field(default_factory=dict)

    def epoch(self, rows: list[tuple[Row, int]], clock: Clock) -> None:
        """Take rows, each with its number."""
        for (key, value, time), number in rows:
            due = [each for each in self.windows(time) if not self._is_final(each, clock.before)]
            self.late += not due
            for window in due:
                self.groups.setdefault((key, window), []).append((time, number, value))

    def _is_final(self, window: Window, mark: int | None) -> bool:
        return mark is not None and window[1] <= mark - self.lateness

    def shown(self, clock: Clock) -> Iterator[tuple[str, Window, list[Numbered]]]:
        """Yield what is over."""
        if clock.mark is None:
            return
        for (key, window), rows in self.groups.items():
            if window[1] <= clock.mark - (self.lateness if self.final else 0):
                yield key, window, rows


@dataclass
class Sessions:
    """Sessions, shown when they are over; each is a list of rows of one key."""

    gap: int
    lateness: int = 0
    late: int = 0
    kept: dict[str, list[list[Numbered]]] = field(default_factory=dict)
    done: list[tuple[str, list[Numbered]]] = field(default_factory=list)

    def epoch(
        self, rows: list[tuple[Row, int]], clock: Clock, gone: list[Numbered] | None = None
    ) -> None:
        """Take rows, and lose some."""
        horizon = None if clock.before is None else clock.before - self.lateness
        keys = {row[0] for row, _ in rows} | set(self.kept)
        lost = Counter(gone or [])
        for key in sorted(keys):
            pool: list[Numbered] = []
            for session in self.kept.pop(key, []):
                if horizon is not None and self._end(session) <= horizon:
                    self.done.append((key, session))
                else:
                    pool += session
            fresh = [(row[2], number, row[1]) for row, number in rows if row[0] == key]
            pool = [row for row in pool if not self._lose(lost, row)] + fresh
            for session in self._split(sorted(pool)):
                if horizon is not None and self._end(session) <= horizon:
                    self.late += len(session)
                else:
                    self.kept.setdefault(key, []).append(session)

    @staticmethod
    def _lose(lost: Counter[Numbered], row: Numbered) -> bool:
        found = lost[row] > 0
        lost[row] -= found
        return found

    def _end(self, session: list[Numbered]) -> int:
        return max(row[0] for row in session) + self.gap

    def _split(self, rows: list[Numbered]) -> list[list[Numbered]]:
        sessions: list[list[Numbered]] = []
        for row in rows:
            if sessions and row[0] <= self._end(sessions[-1]):
                sessions[-1].append(row)
            else:
                sessions.append([row])
        return sessions

    def shown(self, clock: Clock) -> Iterator[tuple[str, Window, list[Numbered]]]:
        """Yield what is over."""
        found = self.done + [(key, each) for key, all_ in self.kept.items() for each in all_]
        for key, session in found:
            end = self._end(session)
            if clock.mark is not None and end <= clock.mark:
                yield key, (min(row[0] for row in session), end), session
