"""Every query of Spark's own SQL tests as a view of ours: `python tools/spark_sql_tests.py SPARK`.

SPARK is a checkout of apache/spark; its files stay there. The tables and temporary views of a file
become tables, filled over three epochs with some rows deleted again; each query of which Spark can
make a view becomes a materialized view, and is compared with Spark's answer after every epoch:

    equal      the same rows equally often, the same names and types of columns
    rounding   only the last digits of fractions differ
    ties       lists in another order, another of the spellings that a collation takes for one, or
               Spark itself answers otherwise for rows in another order
    differs    anything else
    refused    by an error with a code
    bare       by an error without one
    fails      Spark's own answer is an error, at an epoch
    spark      Spark makes no view of it; not counted
    hang       longer than the limit
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_INPUTS = Path("sql/core/src/test/resources/sql-tests/inputs")
_SHOWN = ("equal", "ties", "rounding", "fails", "refused", "differs", "bare", "broken", "hang")


def main() -> None:
    """Run the files that are asked for, then report."""
    options = _options()
    inputs = options.checkout / _INPUTS
    files = [str(each.relative_to(inputs)) for each in sorted(inputs.rglob("*.sql"))]
    chosen = [each for each in files if not options.files or _matches(each, options.files)]
    if not options.report:
        options.out.unlink(missing_ok=True)
        _watched(inputs, chosen, options)
    report(_lines(options.out), details=options.details)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("checkout", type=Path, help="a checkout of apache/spark")
    parser.add_argument(
        "files", nargs="*", help="files without .sql, or folders with /; all by default"
    )
    parser.add_argument("--out", type=Path, default=Path("spark-sql-tests.jsonl"))
    parser.add_argument("--each", type=int, default=1, help="take every n-th query only")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one query")
    parser.add_argument("--report", action="store_true", help="report on the last run again")
    parser.add_argument("--details", action="store_true", help="show queries that are not equal")
    return parser.parse_intermixed_args()


def _matches(file: str, wanted: Iterable[str]) -> bool:
    return any(
        file.startswith(each) if each.endswith("/") else each == file.removesuffix(".sql")
        for each in wanted
    )


def _watched(inputs: Path, files: list[str], options: argparse.Namespace) -> None:
    """Run files in a process of their own; one that hangs is ended, and goes on after the query."""
    skip: dict[str, list[int]] = defaultdict(list)
    left = list(files)
    while left:
        given = [":".join([each, *map(str, skip[each])]) for each in left]
        worker = _start(inputs, given, options)
        done_already = _finished(options.out)
        _wait(worker, options)
        finished = _finished(options.out) - done_already
        left = [each for each in left if each not in finished]
        if left and not _note_hang(options.out, left[0], skip[left[0]]):
            left.pop(0)


def _start(inputs: Path, given: list[str], options: argparse.Namespace) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "spark_sql.worker", str(inputs), str(options.out)]
    paths = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.Popen(
        [*command, str(options.each), *given],
        env={
            **os.environ,
            "TMPDIR": "/dev/shm",
            "PYTHONPATH": os.pathsep.join(paths).strip(":"),
        },
        start_new_session=True,
    )


def _wait(worker: subprocess.Popen[bytes], options: argparse.Namespace) -> None:
    """Wait until the worker ends, or has written nothing for too long."""
    size, since = -1, time.monotonic()
    while worker.poll() is None:
        time.sleep(1)
        now = options.out.stat().st_size if options.out.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > options.limit:
            worker.kill()
            worker.wait()


def _finished(out: Path) -> set[str]:
    return {line["done"] for line in _lines(out) if "done" in line}


def _note_hang(out: Path, file: str, skip: list[int]) -> bool:
    """Write down where a worker hung; False if it was at no query of the file."""
    at = [line for line in _lines(out) if "at" in line and line["at"][0] == file]
    numbers = ([at[-1]["at"][1]] if at[-1]["at"][1] != "step" else at[-1]["asked"]) if at else []
    if not numbers or set(numbers) <= set(skip):
        return False
    skip += numbers
    with out.open("a") as lines:
        for number in numbers:
            print(json.dumps({"file": file, "n": number, "status": "hang", "sql": ""}), file=lines)
    return True


def _lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in out.read_text().splitlines()] if out.exists() else []


def report(lines: list[dict[str, Any]], *, details: bool) -> None:
    """Print what became of the queries, by file, by area and in all."""
    last = {(each["file"], each["n"]): each for each in lines if "status" in each}
    areas: dict[str, Counter[str]] = defaultdict(Counter)
    for each in last.values():
        folder = each["file"].split("/")[0] if "/" in each["file"] else "(top)"
        for area in (each["file"], f"= {folder}", "= all"):
            areas[area][each["status"]] += 1
    print(f"{'file':46}" + "".join(f"{name:>9}" for name in _SHOWN))
    for area, counts in sorted(areas.items(), key=lambda item: (item[0][0] == "=", item[0])):
        if set(counts) != {"spark"}:
            print(f"{area:46}" + "".join(f"{counts[name] or '':>9}" for name in _SHOWN))
    _reasons(list(last.values()))
    if details:
        _details(list(last.values()))


def _reasons(found: list[dict[str, Any]]) -> None:
    refused = Counter((e["code"], e["why"][:90]) for e in found if e["status"] == "refused")
    print("\nrefused:")
    for (code, why), count in refused.most_common(60):
        print(f"{count:6} {code} {why}")
    print("\nfull:")
    full = Counter(e["detail"][5:90] for e in found if e.get("detail", "").startswith("full"))
    for why, count in full.most_common(60):
        print(f"{count:6} {why}")


def _details(found: list[dict[str, Any]]) -> None:
    for each in found:
        if each["status"] in ("differs", "bare", "broken", "hang", "rounding", "ties"):
            print(f"\n-- {each['status']} {each['file']} #{each['n']} {each.get('detail', '')}")
            print(f"{each['sql']}\n  => {each.get('why', '')}")


if __name__ == "__main__":
    main()
