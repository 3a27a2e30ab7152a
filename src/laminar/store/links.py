"""A second place for a file that never changes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from laminar.store import durable_files

_NO_LINKS = {
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EXDEV,
}


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
    shutil.copyfile(source, temp)
    durable_files.sync_file(temp)
    durable_files.failpoint("link.before_rename")
    temp.replace(target)
    durable_files.failpoint("link.after_rename")
