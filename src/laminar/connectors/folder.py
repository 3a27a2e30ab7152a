"""The files of a folder in the order of their names, and how far they have been taken."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from laminar.connectors.source import Json, Offset
from laminar.errors.connectors import SourceReadFailed

_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class Taken:
    """All files up to and including `last` are taken: `count` of them."""

    last: str = ""
    count: int = 0

    def as_json(self) -> dict[str, Json]:
        """Return the offset as the engine keeps it."""
        return {"last": self.last, "count": self.count}


@dataclass(slots=True)
class Folder:
    """Files that only ever come behind the last one taken.

    Law: the files of `(start, end]` are the same whenever they are asked for. A folder cannot
    promise that, so each use counts what lies before the offset, and a file that came late or
    has gone is an error instead of a difference.
    """

    source: str
    path: Path
    patterns: Sequence[str]
    # What was there when an offset was last found good: only to name the culprit later.
    _seen: frozenset[str] = field(default_factory=frozenset, init=False)

    def names(self) -> list[str]:
        """Return the names of all files that match, in order."""
        if self.path.is_file():
            return [self.path.name]
        try:
            with os.scandir(self.path) as entries:
                found = [entry.name for entry in entries if self._matches(entry)]
        except OSError as error:
            raise SourceReadFailed(
                self.source, error.strerror or error, file=str(self.path)
            ) from error
        return sorted(found)

    def file(self, name: str) -> Path:
        """Return where the file of that name lies."""
        return self.path if self.path.name == name and self.path.is_file() else self.path / name

    def after(self, start: Offset | None, limit: int | None) -> Taken | None:
        """Return the offset after at most `limit` further files; None if there are none."""
        names, taken = self.names(), self.taken(start)
        self._check(names, taken)
        upto = len(names) if limit is None else min(len(names), taken.count + limit)
        return Taken(names[upto - 1], upto) if upto > taken.count else None

    def between(self, start: Offset | None, end: Offset) -> list[Path]:
        """Return the files after `start` up to `end`, in order."""
        names, first, last = self.names(), self.taken(start), self.taken(end)
        self._check(names, first)
        self._check(names, last)
        return [self.file(name) for name in names[first.count : last.count]]

    def taken(self, offset: Offset | None) -> Taken:
        """Read an offset back."""
        if offset is None:
            return Taken()
        if isinstance(offset, Mapping):
            last, count = offset.get("last"), offset.get("count")
            if isinstance(last, str) and isinstance(count, int):
                return Taken(last, count)
        raise SourceReadFailed(self.source, f"{offset!r} is not an offset of a folder")

    def _matches(self, entry: os.DirEntry[str]) -> bool:
        name = entry.name
        return (
            not name.startswith(_HIDDEN)
            and any(fnmatchcase(name, pattern) for pattern in self.patterns)
            and entry.is_file()
        )

    def _check(self, names: list[str], taken: Taken) -> None:
        before = set(names[: bisect_right(names, taken.last)])
        known = {name for name in self._seen if name <= taken.last}
        if len(known) != taken.count:
            known = set()  # Started after they were taken: only their number is known.
        complete = len(before) == taken.count and (not before or taken.last in before)
        if complete and known in (set(), before):
            self._seen |= before
            return
        gone = sorted(known - before) or [taken.last] * (taken.last not in before)
        if gone or len(before) < taken.count:
            raise self._vanished(gone, len(before), taken)
        late = sorted(before - known) if known else [self._youngest(before)]
        raise self._came_late(late, len(before) - taken.count)

    def _vanished(self, gone: list[str], left: int, taken: Taken) -> SourceReadFailed:
        which = f'"{gone[0]}"' if gone else "one of them"
        return SourceReadFailed(
            self.source,
            f'{taken.count} files up to "{taken.last}" were taken, {left} are there now: '
            f"{which} has gone",
            file=str(self.path / gone[0]) if gone else str(self.path),
            hint="put the file back; keep files until no epoch needs to be replayed",
        )

    def _came_late(self, late: list[str], number: int) -> SourceReadFailed:
        return SourceReadFailed(
            self.source,
            f"{number} file(s) appeared with a name before the last one taken, "
            f'where they would never be read; first of them: "{late[0]}"',
            file=str(self.path / late[0]),
            hint="give new files names that sort behind the old ones",
        )

    def _youngest(self, names: Iterable[str]) -> str:
        # After a restart nothing is known but the count; the last file to change is the likeliest.
        return max(names, key=lambda name: self.file(name).stat().st_ctime_ns)
