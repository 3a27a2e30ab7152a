"""Durable files: what was written is there after a crash, whole, or not at all.

What is JSON has its checksum on the next line: whole and unchanged, or refused.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from laminar.errors.store import StoreUnreadable, StoreUnwritable
from laminar.store import private

Bytes: TypeAlias = bytes | bytearray | memoryview

TEMP_SUFFIX = ".tmp"
"""How a file is called that was not published yet; such files are never read."""

_CHUNK = 1 << 20
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def _nothing(point: str) -> None:
    """Go on."""


failpoint: Callable[[str], None] = _nothing
"""Called at every point where a crash would matter; a test replaces it to crash there."""


def write_atomic(path: Path, data: bytes, *, point: str = "file") -> None:
    """Create a file whose name appears only with all its bytes on disk: put-if-absent.

    Args:
        path: must not exist; names are never used twice in the store.
        data: the whole content.
        point: prefix of the failpoints on the way.

    Raises:
        FileExistsError: somebody else was first; their file is left as it is.
        StoreUnwritable: the disk refuses; nothing is left behind.
    """
    temp = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{TEMP_SUFFIX}")
    with _filled(temp, path, data, point):
        created = _place(temp, path)
        with _unnamed_again(path) if created else contextlib.nullcontext():
            failpoint(f"{point}.after_rename")
            _unlink_if_possible(temp)
            if created:
                sync_dir(path.parent)
    if not created:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def replace_atomic(path: Path, data: bytes, *, point: str = "file") -> None:
    """Give a file a new content: after a crash it has the old one or the new one, whole.

    Raises:
        StoreUnwritable: the disk refuses; nothing is left beside the file.
    """
    temp = path.with_name(f".{path.name}{TEMP_SUFFIX}")
    with _filled(temp, path, data, point):
        temp.replace(path)
        failpoint(f"{point}.after_rename")
        sync_dir(path.parent)


@contextlib.contextmanager
def _filled(temp: Path, path: Path, data: bytes, point: str) -> Iterator[None]:
    """Put durable bytes beside a path; what is inside gives them its name and makes that durable.

    If the disk refuses, nothing is left beside it.
    """
    with unwritable(path):
        make_dir(path.parent)
        # Not `finally`: a crash leaves the temporary file too, so a scripted one must as well.
        try:
            _fill(temp, data, point)
            failpoint(f"{point}.before_rename")
            yield
            failpoint(f"{point}.after_sync")
        except OSError:
            _unlink_if_possible(temp)
            raise


def _fill(temp: Path, data: bytes, point: str) -> None:
    failpoint(f"{point}.before_write")
    with open(temp, "wb", opener=private.opener) as file:
        file.write(data)
        file.flush()
        failpoint(f"{point}.after_write")
        os.fsync(file.fileno())


class SummedFile:
    """A new file that sums its bytes as they pass; durable once `seal` has returned.

    Args:
        path: must not exist.
        point: prefix of the failpoints on the way.
    """

    def __init__(self, path: Path, point: str = "file") -> None:
        self._path = path
        self._point = point
        self._file = open(path, "xb", opener=private.opener)  # noqa: SIM115
        self._crc = 0
        self.size = 0

    @property
    def closed(self) -> bool:
        """Whether it takes no more bytes."""
        return self._file.closed

    def write(self, data: Bytes) -> int:
        """Append bytes."""
        self._crc = zlib.crc32(data, self._crc)
        written = self._file.write(data)
        self.size += written
        return written

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self.size

    def flush(self) -> None:
        """Hand the bytes to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close without making anything durable."""
        self._file.close()

    def seal(self) -> str:
        """Make bytes and name durable; return the checksum."""
        self._file.flush()
        failpoint(f"{self._point}.before_sync")
        os.fsync(self._file.fileno())
        self._file.close()
        sync_dir(self._path.parent)
        failpoint(f"{self._point}.after_sync")
        return _spell(self._crc)


def checksum(path: Path) -> str:
    """Return the checksum of a file's bytes: fast, against damage and not against malice."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return _spell(crc)


def checksum_of(data: Bytes) -> str:
    """Return the checksum of bytes in memory."""
    return _spell(zlib.crc32(data))


def sync_file(path: Path) -> None:
    """Make the bytes of a file durable that somebody else wrote."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_dir(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_dir(path: Path) -> None:
    """Create a folder and the ones above it, for us alone, each durable in its parent."""
    if path.is_dir():
        return
    make_dir(path.parent)
    private.make(path)
    sync_dir(path.parent)


def make_root(path: Path) -> None:
    """Create the folder of a database, its name durable; those above it are as others make them."""
    root = path.absolute()
    for each in reversed([above for above in root.parents if not above.is_dir()]):
        each.mkdir(exist_ok=True)
        sync_dir(each.parent)
    make_dir(root)


def remove(path: Path, *, point: str = "file") -> None:
    """Remove a file, if it is there.

    Raises:
        StoreUnwritable: the disk refuses.
    """
    with unwritable(path):
        failpoint(f"{point}.before_remove")
        path.unlink(missing_ok=True)
        failpoint(f"{point}.after_remove")


def remove_quietly(path: Path, *, point: str = "file") -> None:
    """Remove a file if that is possible; what stays behind is swept at the next start."""
    failpoint(f"{point}.before_remove")
    _unlink_if_possible(path)
    failpoint(f"{point}.after_remove")


def remove_tree(path: Path, *, point: str = "file") -> None:
    """Remove a folder and all in it as far as that is possible."""
    failpoint(f"{point}.before_remove")
    shutil.rmtree(path, ignore_errors=True)
    failpoint(f"{point}.after_remove")


def _unlink_if_possible(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Turn what the operating system says into words a user can act on."""
    try:
        yield
    except OSError as error:
        raise StoreUnwritable(str(path), error.strerror or str(error)) from error


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say in words that the operating system does not let us read; that nothing is there passes.

    Raises:
        StoreUnreadable: any other error than that there is no such file.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnreadable(str(path), error.strerror or str(error)) from error


def read(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        FileNotFoundError: there is none.
        StoreUnreadable: it cannot be read.
    """
    with readable(path):
        return path.read_bytes()


def listed(folder: Path) -> list[Path]:
    """Return what is in a folder, by name; nothing if there is no such folder.

    Raises:
        StoreUnreadable: it cannot be listed.
    """
    try:
        with readable(folder):
            return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _place(temp: Path, path: Path) -> bool:
    """Give the bytes their name unless it is taken; a link, unlike a rename, never replaces."""
    try:
        os.link(temp, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links here: two processes could still both pass this check.
        if path.exists():
            return False
        temp.replace(path)
    return True


@contextlib.contextmanager
def _unnamed_again(path: Path) -> Iterator[None]:
    """Take a name back if it cannot be made durable.

    The caller will hear that nothing was written, so nothing may be found later.
    """
    try:
        yield
    except Exception:
        _unlink_if_possible(path)
        raise


def _spell(crc: int) -> str:
    return f"crc32:{crc:08x}"


class Unsealed(Exception):
    """The bytes are not what was written; the message says how that is known."""


def seal(values: Mapping[str, Any]) -> bytes:
    """Return plain values as bytes that know their checksum."""
    body = json.dumps(values, separators=(",", ":"), allow_nan=False).encode("ascii")
    return body + b"\n" + _checksum(body) + b"\n"


def unseal(data: bytes) -> Any:
    """Read values back.

    Raises:
        Unsealed: the bytes end early, or were changed.
    """
    body, _, rest = data.partition(b"\n")
    if not rest.endswith(b"\n"):
        raise Unsealed("it ends early")
    if rest[:-1] != _checksum(body):
        raise Unsealed("its checksum does not match")
    try:
        return json.loads(body)
    except ValueError as error:
        raise Unsealed(f"it cannot be understood: {error!r}") from error


def _checksum(body: bytes) -> bytes:
    return b"blake2b:" + hashlib.blake2b(body, digest_size=16).hexdigest().encode("ascii")
