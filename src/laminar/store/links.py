"""A second place for a file that never changes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from laminar.store import durable_files, private

_NO_LINKS = {
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EXDEV,
}


_CHUNK = 1 << 20


class SegmentGone(Exception):
    """A file was removed while it was to be kept: its epoch has a newer revision by now."""


def bring(source: Path, target: Path, *, copies: bool = False) -> None:
    """Give a file a second name, or copy it whole where that is asked for or cannot be.

    A file that is there already is left alone. The folder's names are for the caller to sync.
    """
    if target.exists():
        return
    durable_files.failpoint("link.before_link")
    if not copies:
        try:
            os.link(source, target)
            durable_files.failpoint("link.after_link")
        except FileExistsError:
            return
        except FileNotFoundError:
            raise SegmentGone(source) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            return
    if not source.exists():
        raise SegmentGone(source)
    temp = target.with_name(f".{target.name}{durable_files.TEMP_SUFFIX}")
    with source.open("rb") as read, open(temp, "wb", opener=private.opener) as written:
        shutil.copyfileobj(read, written, _CHUNK)
    durable_files.sync_file(temp)
    durable_files.failpoint("link.before_rename")
    temp.replace(target)
    durable_files.failpoint("link.after_rename")


def bring_durably(source: Path, target: Path, *, copies: bool = False) -> None:
    """Do the same, with the folder that it needs; on return the name survives a crash."""
    durable_files.make_dir(target.parent)
    bring(source, target, copies=copies)
    durable_files.sync_dir(target.parent)
