"""Any one operation of the disk fails: the call that met it says so with a code, and nothing else.

`make test` refuses a few operations, `make test-all` more of them, `make soak` fails every 29th in
every way, `LAMINAR_STRIDE=1` each, and `LAMINAR_SEED=2` those behind these.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .disk_scenario import Meeting
from .faulty_disk import Fault, FaultyDisk, Way

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("LAMINAR_SEED", "1"))

CODES = {Way.REFUSED: (errno.EIO, errno.ENOSPC), Way.TORN: (errno.ENOSPC,), Way.TOLD: (errno.EIO,)}


def stride() -> int:
    """Of all operations every so many fail."""
    if "LAMINAR_STRIDE" in os.environ:
        return int(os.environ["LAMINAR_STRIDE"])
    if int(os.environ.get("LAMINAR_KILLS", "0")) >= 10:
        return 29
    return 397


@pytest.mark.long
@pytest.mark.parametrize(
    "way", [Way.REFUSED, *(pytest.param(way, marks=pytest.mark.soak) for way in list(Way)[1:])]
)
def test_any_operation_may_fail(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    meeting = Meeting(tmp_path, spark)
    disk = FaultyDisk(meeting.folders)
    try:
        number, tried = SEED - 1, 0
        while True:
            code = CODES.get(way, (errno.EIO,))
            fault = Fault(number, way, code[tried % len(code)])
            meeting.arrange()
            try:
                with disk.armed(fault):
                    meeting.cycle()
                # What could not be read once, when the database was opened, is told as damaged.
                meeting.check(may_be_damaged=disk.failed.startswith(("read", "open")))
            except BaseException as error:
                error.add_note(f"{fault} at {disk.failed}; {meeting.failures[-3:]}")
                raise
            if not disk.failed:
                break
            sys.stdout.write(f"{fault}: {disk.failed}\n")
            number, tried = number + stride(), tried + 1
        meeting.check()
    finally:
        meeting.db.close()
    told = f"{way.value}: {tried} operations failed, {len(meeting.failures)} calls said so"
    sys.stdout.write(f"{told}; {sum(disk.done.values())} operations in all: {dict(disk.done)}\n")
    assert tried > 0


def test_the_disk_fails_as_it_is_told(tmp_path: Path) -> None:
    """The layer itself: the operation with that number, in that way, and no other."""
    path, seen = tmp_path / "file", []
    for way in Way:
        disk = FaultyDisk((tmp_path,))
        with disk.armed(Fault(1, way, errno.ENOSPC)):  # the first operation opens the file
            try:
                with path.open("wb", buffering=0) as file:
                    seen.append(file.write(b"1234"))
            except OSError as error:
                seen.append(error.errno)
        assert disk.failed == f"write {path}"
        seen.append(path.read_bytes())
    refused, told, torn, short = b"", b"1234", b"12", b"12"
    full = errno.ENOSPC
    assert seen == [full, refused, full, told, full, torn, 2, short]
