"""The state of a database, for people."""

from __future__ import annotations

from pathlib import Path

from laminar.cli.output import Printer
from laminar.errors import DatabaseNotFound
from laminar.runtime.introspection.status import DatabaseStatus, RelationStatus
from laminar.store import ManifestStore
from laminar.store.address import local_path


def find_state(state: Path | None) -> Path:
    """Return the folder that was named, or the one database that is near."""
    if state is not None:
        return local_path(state)
    for folder in (Path(), Path("state")):
        if ManifestStore(folder).epochs():
            return folder
    raise DatabaseNotFound(str(Path.cwd()))


def show_status(found: DatabaseStatus, printer: Printer) -> None:
    """Print a line about the database, then a row for each relation."""
    printer.line(
        f"{found.path}: epoch {found.epoch}, committed {_ago(found.age_seconds)} ago,"
        f" {size(found.bytes)}; epochs {found.oldest_epoch} to {found.epoch} can be read"
    )
    for name, time in found.watermarks.items():
        printer.line(f"watermark of {name}: {time}")
    printer.rows(
        ("name", "kind", "state", "rows", "size", "segments", "lag"),
        [
            (
                each.name,
                each.kind,
                each.state if each.epoch == found.epoch else f"{each.state}, at epoch {each.epoch}",
                "-" if each.rows is None else each.rows,
                size(each.bytes),
                each.segments,
                _lag(each),
            )
            for each in found.relations
        ],
    )
    if found.sinks:
        printer.rows(
            ("sink", "reads", "connector", "state", "epoch", "behind", "reason"),
            [
                (
                    each.name,
                    each.relation,
                    each.connector,
                    each.state,
                    "-" if each.epoch is None else each.epoch,
                    each.lag_epochs,
                    each.state_reason or "",
                )
                for each in found.sinks
            ],
        )


def _lag(each: RelationStatus) -> str:
    if each.waiting_rows:
        return f"{each.waiting_rows:,} rows wait"
    if each.behind:
        return "there is more"
    if each.behind is None:
        return "" if not each.kind.startswith("source") else "not known"
    return "none"


def size(count: int) -> str:
    """Return a number of bytes as people read it, such as 1.5 MB; a KB is 1000 bytes."""
    amount, unit = float(count), "B"
    for bigger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, bigger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def _ago(seconds: float) -> str:
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds:.0f} seconds"
