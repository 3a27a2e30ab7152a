"""One writer: the second hears who the first is, and gets in only when that one is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


def test_a_second_connection_of_the_same_process_is_refused(tmp_path: Path) -> None:
    first = StateLock(tmp_path)
    with pytest.raises(DatabaseLocked, match=f"process {os.getpid()} on"):
        StateLock(tmp_path)
    first.release()
    first.release()
    StateLock(tmp_path).release()


def test_another_process_keeps_it_until_it_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
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
