"""Starts the worker, kills it at random times, and starts it again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Tally:
    """What a run of the killer did."""

    kills: int = 0
    while_opening: int = 0
    changes: int = 0


def run(folder: Path, kills: int, seed: int, gateway: Mapping[str, str]) -> Tally:
    """Kill the worker so many times; the last start is left to show that all is well.

    Args:
        folder: where state, output and acknowledgements are.
        kills: how many.
        seed: of the times.
        gateway: variables that name the gateway of a running JVM; without them every worker starts
            one of its own, and both are killed.
    """
    chance = random.Random(seed)
    tally = Tally()
    started = time.monotonic()
    while tally.kills < kills:
        # Some die while they open and recover, most at work.
        early = tally.kills % 4 == 1
        tally.while_opening += _one(folder, chance, gateway, tally, early=early)
        tally.kills += 1
        if tally.kills % 10 == 0:
            took = time.monotonic() - started
            sys.stdout.write(f"{tally.kills} kills, {tally.changes} changes, {took:.0f} s\n")
            sys.stdout.flush()
    _one(folder, chance, gateway, tally, early=False)
    return tally


def environment(gateway: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that shares a JVM, or starts its own."""
    env = {**os.environ, **gateway}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env.get("PYTHONPATH", "")])
    return env


def _one(
    folder: Path, chance: random.Random, gateway: Mapping[str, str], tally: Tally, *, early: bool
) -> bool:
    log = folder / "worker.log"
    with (
        log.open("wb") as told,
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash.worker", str(folder)],
            stdout=subprocess.PIPE,
            stderr=told,
            env=environment(gateway),
            cwd=ROOT,
            start_new_session=True,
        ) as worker,
    ):
        assert worker.stdout is not None
        try:
            if early:
                _wait(worker, chance.uniform(1.0, 5.0))
            else:
                tally.changes = _ready(worker.stdout, log)
                _wait(worker, chance.uniform(0.0, 1.5))
            assert worker.poll() is None, log.read_text(errors="replace")[-4000:]
        finally:
            # The whole group: a JVM of its own must not outlive it.
            os.killpg(worker.pid, signal.SIGKILL)
    return early


def _ready(lines: IO[bytes], log: Path) -> int:
    for line in lines:
        if line.startswith(b"ready"):
            return int(line.split()[1])
    raise AssertionError(f"the worker gave up: {log.read_text(errors='replace')[-4000:]}")


def _wait(worker: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        worker.wait(seconds)
    except subprocess.TimeoutExpired:
        return
