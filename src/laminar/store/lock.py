"""One writer per state directory.

The lock is the operating system's, on a file that also says whose it is. The kernel lets go of it
when its holder ends, however that happens, so a lock is never left behind and never has to be
broken; on network file systems the server does the same for machines that are gone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from laminar.errors.store import DatabaseLocked, StoreUnwritable
from laminar.store import durable_files, private
from laminar.store.durable_files import Unsealed, seal, unseal

LOCK = "lock"
"""The file under the store's root."""

FORMAT_VERSION = 1
"""Of what the file says about the owner; the lock itself is the operating system's."""

_TAKEN = {errno.EACCES, errno.EAGAIN}


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes to a state directory."""

    pid: int
    host: str
    since: str
    """ISO 8601."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class StateLock:
    """Held from opening to closing; readers take no part in it.

    Two are taken: on the folder, which cannot be removed while it holds a state, and on the file,
    which is what older versions look at. Who removes the file lets nobody in.

    Raises:
        DatabaseLocked: another process, or another connection of this one, holds it.
        StoreUnwritable: the file cannot be written, or the file system knows no locks.
    """

    def __init__(self, root: Path) -> None:
        path = root / LOCK
        self._process = os.getpid()
        self._held: list[int] = []
        try:
            with durable_files.unwritable(path):
                self._take(os.open(root, os.O_RDONLY), root, needed=False)
                file = private.opener(str(path), os.O_RDWR | os.O_CREAT)
                self._take(file, root)
                _write_owner(file)
        except BaseException:
            self.release()
            raise

    def _take(self, handle: int, root: Path, *, needed: bool = True) -> None:
        try:
            # Each opening is a holder of its own, so this also tells two connections of one
            # process apart.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in _TAKEN:
                raise DatabaseLocked(str(root), str(owner(root) or "not known")) from None
            if needed:
                reason = f"it cannot be locked: {error.strerror}"
                raise StoreUnwritable(str(root / LOCK), reason) from error
            return  # network file systems lock no folders: there the file alone keeps others out
        self._held.append(handle)

    def release(self) -> None:
        """Let others in; nothing happens the second time.

        A forked child only closes its own handles: the lock is still its parent's.
        """
        held, self._held = self._held, []
        for handle in reversed(held):
            if os.getpid() == self._process:
                # Said aloud, because a forked child may hold the same opening.
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def _write_owner(file: int) -> None:
    mine = Owner(os.getpid(), socket.gethostname(), _now())
    durable_files.failpoint("lock.before_write")
    os.ftruncate(file, 0)
    with open(file, "wb", closefd=False) as written:
        written.write(seal({"format": FORMAT_VERSION, **asdict(mine)}))
    durable_files.failpoint("lock.after_write")


def owner(root: Path) -> Owner | None:
    """Return who locked a directory last, for messages alone; None if that cannot be told."""
    try:
        # Other versions may say more: what is needed for a message is all that is looked at.
        found = unseal((root / LOCK).read_bytes())
        return Owner(int(found["pid"]), str(found["host"]), str(found["since"]))
    except (OSError, Unsealed, ValueError, TypeError, KeyError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
