"""What statements read that are prepared once and run in every epoch.

Of a small epoch's time, most went into finding out what its statements mean and how to run them:
reading their text, looking up names, making frames of files and views of frames, planning. All of
that is the same as the epoch before, but for the files that a binding stands on. So a binding is
read through a folder of links, which each epoch points at the segments of its own. A statement over
such folders keeps its meaning, and only Spark's list of the folder's files is made anew.

Law: a frame of `statement` runs before any of its folders is pointed elsewhere. So whoever computes
asks for it in the epoch that it computes in; frames that others may keep are made of the files
themselves.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.errors.store import SegmentMissing
from laminar.model.trace import Segment
from laminar.runtime.spark.java_process import on_renewal
from laminar.runtime.spark.plan_cache import FolderRelation, Planner, PreparedStatement
from laminar.store import SegmentStore, durable_files
from laminar.store.collect import relaxed
from laminar.store.segments import ONE_TASK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("laminar.epochs")

LINKS = "links"
"""Their folder under the store's root; what is in it means nothing to the next process."""

_ONCE_CALLED = "ports"
"""How older versions called it; one that was killed has left it there."""

_KEPT = 8
"""Statements that are remembered for each relation: by what is known of its inputs, and which of
them changed, a relation has several. Those that name a moment come only once."""


@dataclass(slots=True)
class LinkFolder:
    """A folder of links, and the views over it."""

    folder: Path
    relation: FolderRelation
    view: str
    """All partitions."""
    view_of_one: str
    """The same rows in one partition."""
    shown: frozenset[str] | None = None
    """The files that Spark has on its list; None while that is not sure."""

    def point(self, root: Path, names: Sequence[str]) -> None:
        """Let the folder show these files and no others."""
        for name in names:
            # Each time, because Spark takes a link that leads nowhere for a file that is not there.
            if not (root / name).exists():
                raise SegmentMissing(str(root / name))
        wanted = {Path(name).name: root / name for name in names}
        if wanted.keys() == self.shown:
            return
        self.shown = None
        durable_files.failpoint("port.before_links")
        with durable_files.unwritable(self.folder):
            there = {each.name for each in self.folder.iterdir()}
            for name in there - wanted.keys():
                (self.folder / name).unlink()
            for name in wanted.keys() - there:
                (self.folder / name).symlink_to(wanted[name])
        durable_files.failpoint("port.after_links")
        if self.relation.list_again() != len(names):
            raise SegmentMissing(str(self.folder))
        self.shown = frozenset(wanted)


class StatementCache:
    """The link folders of one session, and the statements over them.

    Args:
        session: where statements are analysed.
        store: knows how segments are read.
    """

    def __init__(self, session: SparkSession, store: SegmentStore) -> None:
        self._session = session
        self._store = store
        self._folder = store.root / LINKS / uuid.uuid4().hex[:12]
        self._link_folders: dict[tuple[str, str], LinkFolder] = {}
        self._empties: dict[tuple[str, str], str] = {}
        self._planner = Planner(session)
        self._statements: OrderedDict[str, PreparedStatement] = OrderedDict()
        self._definitions: object = None
        self._are_possible: bool | None = None
        self._made = 0
        self._most = _KEPT
        self._lock = threading.Lock()
        on_renewal(session, self._renew)

    @property
    def are_possible(self) -> bool:
        """Whether there can be links where the segments are; without them, nothing is kept."""
        with self._lock:
            if self._are_possible is None:
                self._are_possible = self._try_links()
            return self._are_possible

    def serve(self, definitions: object, relations: int) -> None:
        """Forget everything if the definitions are not those of the last epoch.

        Args:
            definitions: what statements are made from; another object is another definition.
            relations: how many relations are defined.
        """
        with self._lock:
            if self._definitions is not definitions:
                self._forget()
                self._definitions = definitions
                self._most = _KEPT * relations

    def view(self, binding: str, schema: str, segments: Sequence[Segment]) -> str:
        """Point the folder of a binding at segments; return the name under which it can be read.

        Raises:
            SegmentMissing: a file is gone.
        """
        names = [file for segment in segments for file in segment.files]
        with self._lock:
            if not names:
                return self._empty(binding, schema)
            found = self._link_folders.get((binding, schema))
            if found is None:
                found = self._link_folders[binding, schema] = self._open(binding, schema)
            found.point(self._store.root, names)
        rows = sum(segment.rows for segment in segments)
        return found.view if rows > ONE_TASK else found.view_of_one

    def statement(self, sql: str) -> DataFrame:
        """Return the frame of a statement that names only such views, prepared now or before."""
        with self._lock:
            found = self._statements.get(sql)
            if found is not None:
                self._statements.move_to_end(sql)
        if found is None:
            # Without the lock: nodes run side by side, and analysing is what takes time.
            found = PreparedStatement(relaxed(self._session.sql(sql)), self._planner)
            with self._lock:
                self._statements[sql] = found
                if len(self._statements) > self._most:
                    self._statements.popitem(last=False)
        return found.frame()

    def _try_links(self) -> bool:
        trial = self._folder / "trial"
        try:
            durable_files.make_dir(self._folder)
            trial.symlink_to(self._store.root)
            durable_files.remove_quietly(trial, point="port")
        except OSError as error:
            _LOG.warning("every epoch analyses its statements anew, for want of links: %s", error)
            return False
        return True

    def _open(self, binding: str, schema: str) -> LinkFolder:
        names = self._next_name(binding), self._next_name(binding)
        folder = self._folder / str(self._made)
        with durable_files.unwritable(folder):
            durable_files.make_dir(folder)
        frame = self._store.folder_frame(schema, folder)
        frame.createOrReplaceTempView(names[0])
        self._planner.by_one_task(frame).createOrReplaceTempView(names[1])
        return LinkFolder(folder, FolderRelation(frame), *names)

    def _empty(self, binding: str, schema: str) -> str:
        found = self._empties.get((binding, schema))
        if found is None:
            found = self._empties[binding, schema] = self._next_name(binding)
            self._store.frame(schema, ()).createOrReplaceTempView(found)
        return found

    def _next_name(self, binding: str) -> str:
        self._made += 1
        return f"{binding}__links_{self._made}"

    def _renew(self) -> None:
        """Begin anew: the session has no views any more, and there are no plans."""
        with self._lock:
            self._planner, self._definitions = Planner(self._session), None
            self._clear()

    def _forget(self) -> None:
        for folder in self._link_folders.values():
            self._session.catalog.dropTempView(folder.view)
            self._session.catalog.dropTempView(folder.view_of_one)
        for name in self._empties.values():
            self._session.catalog.dropTempView(name)
        self._clear()

    def _clear(self) -> None:
        self._link_folders.clear()
        self._empties.clear()
        self._statements.clear()
        durable_files.remove_tree(self._folder, point="port")


def remove_links(root: Path) -> None:
    """Remove all links: at the end, and at the beginning what a killed process has left."""
    for name in (LINKS, _ONCE_CALLED):
        if (root / name).exists():
            durable_files.remove_tree(root / name, point="port")
