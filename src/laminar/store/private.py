"""Files that their owner alone may read: 0600, in folders 0700, whatever the umask is.

A state holds rows, and texts of users. Law: a file is never open to others, not even for the moment
between its creation and a `chmod`; so it is created that way, and the mode is then set exactly, for
an umask could only have taken rights away.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

FILE, FOLDER = 0o600, 0o700

_LOG = logging.getLogger("laminar.store")


def opener(path: str, flags: int) -> int:
    """Open a file as `open` does, and create it so; one that is there is closed to others."""
    handle = os.open(path, flags, FILE)
    try:
        if stat.S_IMODE(os.fstat(handle).st_mode) != FILE:
            os.fchmod(handle, FILE)
    except OSError as error:
        _not_ours(path, error)
    return handle


def make(path: Path) -> None:
    """Create one folder, unless it is there."""
    try:
        path.mkdir(FOLDER)
    except FileExistsError:
        if path.is_dir():
            return
        raise
    path.chmod(FOLDER)


def close_to_others(path: Path) -> None:
    """Take from others what they may do with a file or folder; links are left alone."""
    found = path.lstat()
    wanted = FOLDER if stat.S_ISDIR(found.st_mode) else FILE
    if not stat.S_ISLNK(found.st_mode) and stat.S_IMODE(found.st_mode) != wanted:
        try:
            path.chmod(wanted)
        except OSError as error:
            _not_ours(path, error)


def tighten(root: Path, parts: Iterable[str]) -> None:
    """Close the state of an older version to others; what is closed already is not read again.

    A folder is closed after all that is in it, so its mode says that everything below is done.

    Args:
        root: the folder of the database.
        parts: names in it that are the database's own; what else lies there is left alone.
    """
    for part in (root / name for name in parts):
        if part.is_dir() and not part.is_symlink() and not _is_closed(part):
            for folder, folders, files in os.walk(part, topdown=False):
                for name in (*folders, *files):
                    close_to_others(Path(folder, name))
        if part.exists():
            close_to_others(part)
    close_to_others(root)


def _is_closed(folder: Path) -> bool:
    return stat.S_IMODE(folder.stat().st_mode) == FOLDER


def _not_ours(path: str | Path, error: OSError) -> None:
    """Go on where only its owner, or the file system, could change a mode; but say so."""
    _LOG.warning("%s may stay open to others: %s", path, error.strerror or error)
