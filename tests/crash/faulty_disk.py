"""A disk that fails on demand: any single operation of this process, in any way in which disks do.

It stands between Python and the operating system: what Python code opens, reads, writes, syncs,
links, renames, removes or lists below some folders is counted, and the one with a given number
fails. What Java or C libraries do with files of their own is not seen.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest


class Way(Enum):
    """How an operation fails."""

    REFUSED = "refused"
    """Nothing is done, and that is said."""
    TOLD = "told"
    """All is done, and yet an error is told, as by a network that lost the answer."""
    TORN = "torn"
    """Of a write, half is done, and an error is told; all else is refused."""
    SHORT = "short"
    """Of a write without buffer, half is done, and that is what it returns; all else works."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails: the operation with that number, counted from 0."""

    number: int
    way: Way = Way.REFUSED
    code: int = errno.EIO

    @property
    def error(self) -> OSError:
        """What is told."""
        return OSError(self.code, os.strerror(self.code))


@dataclass
class FaultyDisk:
    """Counts the operations below some folders while it is `armed`, and fails one of them."""

    folders: tuple[Path, ...]
    fault: Fault | None = None
    done: Counter[str] = field(default_factory=Counter)
    """Operation -> how often there was one while armed."""
    failed: str = ""
    """What failed: the operation and its file."""
    before: Callable[[int], None] = lambda _number: None
    """Called before every operation; what it does itself does not count, and others wait for it."""
    _count: int = 0
    _guard: Any = field(default_factory=threading.RLock)
    _is_seen: bool = True

    @contextmanager
    def armed(self, fault: Fault | None) -> Iterator[None]:
        """Fail an operation inside; or only count them."""
        self.fault, self.failed, self._count = fault, "", 0
        with pytest.MonkeyPatch.context() as patch:
            for name in _BY_PATH:
                patch.setattr(os, name, self._by_path(name, getattr(os, name)))
            for name in _BY_HANDLE:
                patch.setattr(os, name, self._by_handle(name, getattr(os, name)))
            opens = self._opening(io.open)
            patch.setattr(io, "open", opens)
            patch.setattr(builtins, "open", opens)
            try:
                yield
            finally:
                self.fault = None  # threads that go on with what they have opened

    def holds(self, path: object) -> bool:
        """Whether an operation on that path counts."""
        if not isinstance(path, (str, os.PathLike)) or self._is_mine():
            return False
        found = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would ask the disk
        return any(each == found or each in found.parents for each in self.folders)

    def _is_mine(self) -> bool:
        """Whether the caller is `before`, the only one to come here with the guard."""
        if not self._guard.acquire(blocking=False):
            return False
        try:
            return not self._is_seen
        finally:
            self._guard.release()

    def meet(self, operation: str, path: object) -> Fault | None:
        """Count an operation; return the fault if it is the one."""
        with self._guard:
            self.done[operation] += 1
            at, self._count = self._count, self._count + 1
            self._is_seen = False
            try:
                self.before(at)
            finally:
                self._is_seen = True
            if self.fault is None or at != self.fault.number:
                return None
            self.failed = f"{operation} {path}"
            return self.fault

    def _by_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            if not self.holds(path):
                return real(path, *rest, **named)
            return self._done(name, path, lambda: real(path, *rest, **named))

        return call

    def _by_handle(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(handle: int, *rest: Any) -> Any:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if not self.holds(path):
                return real(handle, *rest)
            return self._done(name, path, lambda: real(handle, *rest))

        return call

    def _done(self, name: str, path: object, run: Callable[[], Any]) -> Any:
        fault = self.meet(name, path)
        if fault is None or fault.way is Way.SHORT:
            return run()
        if fault.way is Way.TOLD:
            given = run()
            if name == "open":
                os.close(given)
        raise fault.error

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            if not self.holds(path):
                return real(path, *rest, **named)
            fault = self.meet("open", path)
            if fault is not None and fault.way is not Way.SHORT:
                if fault.way is Way.TOLD:
                    real(path, *rest, **named).close()
                raise fault.error
            return _File(self, path, real(path, *rest, **named))

        return call


_BY_PATH = (
    "open",
    "link",
    "rename",
    "replace",
    "unlink",
    "remove",
    "mkdir",
    "rmdir",
    "truncate",
    "chmod",
    "listdir",
    "scandir",
)
_BY_HANDLE = ("fsync", "fdatasync", "ftruncate")


class _File:
    """An open file whose reads and writes count."""

    def __init__(self, disk: FaultyDisk, path: object, file: Any) -> None:
        self._disk, self._path, self._file = disk, path, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_about: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        self._met("read", lambda: None)
        return iter(self._file)

    def read(self, *size: int) -> Any:
        """Read."""
        return self._met("read", lambda: self._file.read(*size))

    def readinto(self, buffer: Any) -> Any:
        """Read."""
        return self._met("read", lambda: self._file.readinto(buffer))

    def truncate(self, *size: int) -> Any:
        """Cut off."""
        return self._met("truncate", lambda: self._file.truncate(*size))

    def write(self, data: Any) -> Any:
        """Write."""
        fault = self._disk.meet("write", self._path)
        if fault is None:
            return self._file.write(data)
        is_raw = isinstance(self._file, io.RawIOBase)
        if fault.way is Way.TOLD or (fault.way is Way.SHORT and not is_raw):
            written = self._file.write(data)
        elif fault.way is Way.REFUSED:
            written = 0
        else:
            written = self._file.write(data[: len(data) // 2])
        if fault.way is Way.SHORT:
            return written
        self._file.flush()
        raise fault.error

    def _met(self, name: str, run: Callable[[], Any]) -> Any:
        fault = self._disk.meet(name, self._path)
        if fault is None or fault.way is Way.SHORT:
            return run()
        if fault.way is Way.TOLD:
            run()
        raise fault.error
