"""A log of changes over a real timeline, of which the rows are what a test says they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from laminar.model.state import EngineState
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.history.differences import ChangeFrame, Differences
from laminar.runtime.history.timeline import Snapshot, Timeline
from laminar.runtime.output.changelog import DagChangelogPropagator
from laminar.runtime.output.sinks import Publisher
from laminar.runtime.output.subscriptions import Subscriptions
from laminar.store.cursors import CursorStore

from ..parts import Parts

SCRIPT = "CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t;"


class Session:
    """Takes settings, and does nothing with them."""

    def __init__(self) -> None:
        self.conf = self

    def set(self, name: str, value: str) -> None:
        """Set nothing."""


class Words(str):
    """A frame that is what a test calls it."""

    sparkSession = Session()  # noqa: N815


class Changes:
    """What changed, in words: nothing in the epochs that are listed as quiet."""

    def __init__(self, quiet: Iterable[int] = ()) -> None:
        self.quiet = set(quiet)

    def content(self, _snapshot: Snapshot, relation: str, epoch: int) -> ChangeFrame | None:
        return None if epoch in self.quiet else self._told(f"{relation} at {epoch}")

    def delta(
        self, _snapshot: Snapshot, relation: str, older: int, newer: int
    ) -> ChangeFrame | None:
        return None if newer in self.quiet else self._told(f"{relation} {older} to {newer}")

    def _told(self, text: str) -> ChangeFrame:
        return ChangeFrame(cast("Any", Words(text)), 1, False, lambda: self._told(text))


class Told:
    """Definitions, the epochs of a folder, and the log that consumers ride on."""

    def __init__(self, root: Path, *, quiet: Iterable[int] = ()) -> None:
        self.root = root
        self.parts = Parts(SCRIPT)
        self.timeline = Timeline(root)
        between = cast("Differences", Changes(quiet))
        self.log = DagChangelogPropagator(self.timeline, self.parts.scheduler, between)
        self.cursors = CursorStore(root)
        self.sinks: list[Publisher] = []
        self.step(self.timeline.epoch)

    def step(self, epoch: int | None = None, **behind: int) -> None:
        """Commit an epoch, the next one by default, while some views stay at theirs."""
        catalog = self.parts.catalog
        self.timeline.pinned = self.log.pinned(self.timeline.epoch + 1)
        self.timeline.commit(
            self.timeline.epoch + 1 if epoch is None else epoch,
            traces={},
            offsets={},
            catalog=to_json(catalog.in_order()),
            state=EngineState(behind=behind),
            watermarks={},
        )
        self.parts.manifest = self.timeline.manifest
        self.parts.scheduler.restore()
        self._shown = Snapshot(self.timeline.manifest, catalog.copy())
        self.log.notify()
        for each in self.sinks:
            each.progress.committed()

    def snapshot(self) -> Snapshot:
        return self._shown

    def subscriptions(self, *, poll_seconds: float | None = None) -> Subscriptions:
        found = Subscriptions(
            self.parts.defined, self.log, self.timeline, self.snapshot, self.root, poll_seconds
        )
        self.log.needs.append(found.needs)
        return found
