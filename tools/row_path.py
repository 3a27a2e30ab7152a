"""Which files a row passes on its way from a JSON file to a reader: `python tools/row_path.py`.

A file counts if one of its functions is called on the thread that steps, on a source's, its
connector's or a view's; what is done in the background (checkpoints, compaction) does not count.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import laminar

THREADS = ("MainThread", "laminar-source", "laminar-connector", "laminar-node")
PIPELINE = """
    CREATE SOURCE trades (id BIGINT, symbol STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts)
      WITH (connector = 'files', path = '{folder}', format = 'json');
    CREATE MATERIALIZED VIEW counts AS SELECT symbol, COUNT(*) AS n FROM trades GROUP BY symbol"""
POLL = ("laminar.runtime.ingest.connector_inlet", "poll")
CUT = ("laminar.runtime.ingest.connector_bridge", "cut")
"""Asks all inlets for what there is to be taken; a thread of each source polls meanwhile."""

WARM_UP = 2
"""Epochs and reads before the one that is looked at: it is a warm path that counts.

Plans are cached by then, and the text of a query that came before is not read again.
"""


class CalledModules:
    """Collects the modules whose functions are called while it is asked to.

    The intake is what happens from the poll of the connector, with whoever asks for it from the
    inlets' `cut` inwards, until that `cut` returns: then the segment is there.
    """

    def __init__(self) -> None:
        self._found: set[str] | None = None
        self._intake: set[str] = set()
        self._is_polled = self._is_cut = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a call; this is the profiler of all threads."""
        module = _module(frame)
        found = self._found
        if found is None or not module or not threading.current_thread().name.startswith(THREADS):
            return
        if event == "call":
            found.add(module)
            if _is(frame, POLL) and not self._is_polled:
                self._is_polled = True
                self._intake |= set(_callers(frame))
            elif self._is_polled and not self._is_cut:
                self._intake.add(module)
        elif event == "return" and _is(frame, CUT):
            self._is_cut = True

    @contextmanager
    def collected(self) -> Iterator[tuple[set[str], set[str]]]:
        """Give the modules that are called while the context lasts, and those of the intake."""
        found = self._found = set()
        self._intake = set()
        self._is_polled = self._is_cut = False
        try:
            yield found, self._intake
        finally:
            self._found = None


def _module(frame: FrameType) -> str:
    """Return the module of laminar that a frame is of; nothing if it is of another package."""
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.startswith("laminar.") and frame.f_code.co_name != "<module>" else ""


def _callers(frame: FrameType) -> Iterator[str]:
    """Yield the modules on the stack, up to the inlets' `cut`."""
    at: FrameType | None = frame
    while at is not None:
        if _module(at):
            yield _module(at)
        at = None if _is(at, CUT) else at.f_back


def _is(frame: FrameType, function: tuple[str, str]) -> bool:
    return (_module(frame), frame.f_code.co_name) == function


def measured() -> dict[str, set[str]]:
    """Run a small pipeline; return stage -> the modules that it passes."""
    calls = CalledModules()
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        with tempfile.TemporaryDirectory() as root:
            return _run(Path(root), calls)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _run(root: Path, calls: CalledModules) -> dict[str, set[str]]:
    folder = root / "trades"
    folder.mkdir()
    with laminar.connect(str(root / "state")) as db:
        db.execute(PIPELINE.format(folder=folder))
        for number in range(WARM_UP):
            _write(folder, number)
            db.step()
            db.sql("SELECT * FROM counts").rows()
        _write(folder, WARM_UP)
        with calls.collected() as (step, intake):
            db.step()
        with calls.collected() as (read, _):
            rows = db.sql("SELECT * FROM counts").rows()
    assert rows == [("A", 5 * (WARM_UP + 1))], rows
    return {"intake": intake, "step": step, "read": read, "row": step | read}


def _write(folder: Path, number: int) -> None:
    rows = [{"id": n, "symbol": "A", "ts": f"2024-01-01T00:0{number}:0{n}Z"} for n in range(5)]
    aside = folder / f".{number}"
    aside.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    aside.rename(folder / f"{number:04d}.json")


def main() -> None:
    """Print the modules of each stage, and how many there are."""
    found = measured()
    for stage in ("intake", "step", "read"):
        print(f"{stage}:", *sorted(found[stage]), sep="\n  ")
    for stage, modules in found.items():
        print(f"{stage}: {len(modules)} files")


if __name__ == "__main__":
    main()
