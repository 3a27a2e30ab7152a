"""The power goes at any moment: what was said to be durable is there, all else agrees with it."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .disk_scenario import Meeting, Row
from .faulty_disk import FaultyDisk
from .power import Power

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("LAMINAR_SEED", "1"))


def losses() -> int:
    """How often the power goes in one cycle."""
    if int(os.environ.get("LAMINAR_KILLS", "0")) >= 10:
        return 100
    return 20


def test_what_was_not_synced_may_be_gone(tmp_path: Path) -> None:
    """The model itself: synced bytes under synced names stay, everything else is seen to go."""
    root = tmp_path / "state"
    root.mkdir()
    power = Power(root)
    with power.watched():
        safe, unnamed, unsynced = root / "safe", root / "unnamed", root / "unsynced"
        for path in (safe, unsynced):
            path.write_bytes(b"x" * 100)
        with safe.open("rb") as file:
            os.fsync(file.fileno())
        handle = os.open(root, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        unnamed.write_bytes(b"y")
    seen: dict[str, set[bytes | None]] = {"safe": set(), "unnamed": set(), "unsynced": set()}
    for seed in range(40):
        power.gone(random.Random(seed), tmp_path / str(seed))
        for name, contents in seen.items():
            path = tmp_path / str(seed) / "state" / name
            contents.add(path.read_bytes() if path.exists() else None)
    power.close()
    assert seen["safe"] == {b"x" * 100}
    assert {None, b"", b"y"} <= seen["unnamed"]
    assert {b"", b"x" * 100, bytes(100)} < seen["unsynced"]
    assert None not in seen["unsynced"]


@pytest.mark.spark
@pytest.mark.long
def test_the_power_goes_at_any_moment(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    root, lost = tmp_path / "root", tmp_path / "lost"
    root.mkdir()
    meeting = Meeting(root, spark, shop=False)
    disk = FaultyDisk(meeting.folders)
    meeting.arrange()
    with disk.armed(None):
        meeting.cycle()
    count = sum(disk.done.values())
    at = {chance.randrange(count) for _ in range(losses())}
    allowed: dict[int, tuple[Counter[Row], ...]] = {}

    def maybe_lose(number: int) -> None:
        if number in at:
            power.gone(chance, lost / str(number))
            allowed[number] = (meeting.pushed.copy(), meeting.soon.copy())

    meeting.arrange()
    disk.before, power = maybe_lose, Power(meeting.state, meeting.out)
    with disk.armed(None), power.watched():
        meeting.cycle()
    meeting.check()
    meeting.db.close()
    power.close()
    aside = tmp_path / "aside"
    for number, pushed in allowed.items():
        root.rename(aside)
        (lost / str(number)).rename(root)
        shutil.copytree(aside / meeting.into.name, meeting.into)
        try:
            meeting.open()
            meeting.check_one_of(*pushed)
        except BaseException as error:
            error.add_note(f"the power went before operation {number} of {count}")
            raise
        finally:
            meeting.db.close()
        shutil.rmtree(root)
        aside.rename(root)
    sys.stdout.write(f"the power went {len(allowed)} times in {count} operations\n")
    assert allowed
