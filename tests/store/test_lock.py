"""One writer: the second hears who the first is, and gets in only when that one is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from laminar.errors import DatabaseLocked, StoreUnwritable
from laminar.store.lock import LOCK, StateLock, owner

HOLDER = """
import pathlib, sys
from laminar.store import StateLock
lock = StateLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


FORKING = """
import os, pathlib, sys
from laminar.store import StateLock
lock = StateLock(pathlib.Path(sys.argv[1]))
child = os.fork()
if not child:
    lock.release()
    os._exit(0)
os.waitpid(child, 0)
print("the child has let go", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(script: str, root: Path) -> Iterator[tuple[subprocess.Popen[bytes], bytes]]:
    """Run a script about a folder; give it with the first line that it says."""
    command = [sys.executable, "-c", script, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        yield running, running.stdout.readline()


def test_a_second_connection_of_the_same_process_is_refused(tmp_path: Path) -> None:
    first = StateLock(tmp_path)
    with pytest.raises(DatabaseLocked, match=f"process {os.getpid()} on"):
        StateLock(tmp_path)
    first.release()
    first.release()
    StateLock(tmp_path).release()


def test_another_process_keeps_it_until_it_is_gone(tmp_path: Path) -> None:
    with process(HOLDER, tmp_path) as (holder, said):
        assert said == b"held\n"
        with pytest.raises(DatabaseLocked, match=f"process {holder.pid} on") as refused:
            StateLock(tmp_path)
        assert refused.value.code == "LMR-6011"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    # The file still names the dead owner; that is no claim.
    left = owner(tmp_path)
    assert left is not None
    assert left.pid == holder.pid
    mine = StateLock(tmp_path)
    found = owner(tmp_path)
    assert found is not None
    assert found.pid == os.getpid()
    mine.release()


def test_an_owner_that_cannot_be_read_is_still_an_owner(tmp_path: Path) -> None:
    held = StateLock(tmp_path)
    (tmp_path / LOCK).write_bytes(b"{")
    with pytest.raises(DatabaseLocked, match="not known"):
        StateLock(tmp_path)
    held.release()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    with pytest.raises(StoreUnwritable, match="lock"):
        StateLock(tmp_path)


def test_who_removes_the_file_lets_nobody_in(tmp_path: Path) -> None:
    held = StateLock(tmp_path)
    (tmp_path / LOCK).unlink()
    with pytest.raises(DatabaseLocked):
        StateLock(tmp_path)
    held.release()
    StateLock(tmp_path).release()


def test_a_forked_child_does_not_give_its_parents_lock_away(tmp_path: Path) -> None:
    with process(FORKING, tmp_path) as (holder, said):
        assert said == b"the child has let go\n"
        with pytest.raises(DatabaseLocked):
            StateLock(tmp_path)
        holder.communicate(b"", 60)
    StateLock(tmp_path).release()


def test_a_forked_child_that_lives_on_does_not_keep_the_lock(tmp_path: Path) -> None:
    held = StateLock(tmp_path)
    copies = [os.dup(handle) for handle in held._held]  # what a child of a fork has
    held.release()
    StateLock(tmp_path).release()
    for each in copies:
        os.close(each)


def test_a_file_system_that_locks_no_folders_locks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def flock(handle: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, "as NFS says")
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    held = StateLock(tmp_path)
    with pytest.raises(DatabaseLocked):
        StateLock(tmp_path)
    monkeypatch.undo()
    held.release()


def test_a_lock_that_cannot_be_written_is_held_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", full)
        with pytest.raises(StoreUnwritable, match="lock"):
            StateLock(tmp_path)
    StateLock(tmp_path).release()
