"""Spark alone is lost: killed, halted, out of memory, stopped by its owner; see `spark_loss`.

`make test-all` tries every way and every call, `make soak LOSSES=200` loses
as many at random times as asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .killer import ROOT, environment

_AT_MOST = 600.0
LOSSES = int(os.environ.get("LAMINAR_LOSSES", "3"))
SEED = int(os.environ.get("LAMINAR_SEED", "1"))


def run(*what: str, at_most: float = _AT_MOST) -> None:
    """Run a scenario in a process of its own; it has a Spark of its own."""
    command = [sys.executable, "-m", "tests.crash.spark_loss", *what]
    # A session of its own: whatever is left of it can be ended.
    with subprocess.Popen(command, cwd=ROOT, env=environment({}), start_new_session=True) as found:
        try:
            assert found.wait(at_most) == 0
        except subprocess.TimeoutExpired:
            os.killpg(found.pid, signal.SIGKILL)
            raise


@pytest.mark.long  # it starts Java three times
def test_a_spark_that_is_killed_is_started_again(tmp_path: Path) -> None:
    run("killed", str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize(
    "scenario",
    [
        "every_call",
        "two_databases",
        "halted",
        "out_of_memory",
        "in_the_loop",
        "callers",
        "many_threads",
        "restored",
    ],
)
def test_a_spark_that_is_lost_is_said_to_be_and_nothing_else_is(
    tmp_path: Path, scenario: str
) -> None:
    run(scenario, str(tmp_path))


@pytest.mark.soak
def test_whenever_it_is_lost_views_and_sinks_are_exact(tmp_path: Path) -> None:
    longer = _AT_MOST + 120 * LOSSES
    run("at_random", str(tmp_path), str(LOSSES), str(SEED), at_most=longer)
