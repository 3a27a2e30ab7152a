"""Whether files hold what was written to them: looked at side by side, many at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from laminar.model.trace import Manifest
from laminar.store import durable_files

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A data file as a manifest names it."""

    relation: str
    name: str
    """Relative to the store's root."""
    checksum: str


def segment_files(manifest: Manifest) -> list[SegmentFile]:
    """Return every data file of an epoch."""
    return [
        SegmentFile(relation, name, checksum)
        for relation, trace in manifest.traces.items()
        for segment in trace.segments
        for name, checksum in zip(segment.files, segment.checksums, strict=True)
    ]


def faults(
    wanted: Iterable[SegmentFile], place: Callable[[str], Path], parallelism: int
) -> dict[SegmentFile, str]:
    """Return what is wrong with files, in words; checksums are computed outside Python's lock.

    Args:
        wanted: the files to look at.
        place: where each of them is.
        parallelism: how many are read at the same time.
    """
    listed = list(wanted)
    with ThreadPoolExecutor(parallelism, thread_name_prefix="laminar-verify") as pool:
        found = pool.map(lambda each: fault(place(each.name), each.checksum), listed)
        return {each: said for each, said in zip(listed, found, strict=True) if said is not None}


def side_by_side(work: Callable[[_T], object], items: Iterable[_T], parallelism: int) -> None:
    """Do something to each of several things, many at a time; raise what went wrong first."""
    with ThreadPoolExecutor(parallelism, thread_name_prefix="laminar-restore") as pool:
        for _ in pool.map(work, items):
            pass


def fault(path: Path, expected: str) -> str | None:
    """Return what is wrong with one file; None if nothing is."""
    try:
        found = durable_files.checksum(path)
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror or os.strerror(error.errno or 0)}"
    return None if found == expected else f"checksum is {found}, written was {expected}"
