"""What readers see: definitions and data that belong together, replaced in one assignment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar.model.trace import Manifest
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.runtime.catalog.storage_plan import StoragePlan


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A committed epoch and the definitions it was committed with."""

    manifest: Manifest
    catalog: Catalog

    def upstream(self, names: list[str]) -> list[str]:
        """Return the names and all that the views among them read, however far."""
        registry = self.catalog.registry
        above = {
            each
            for name in names
            if name in self.catalog.programs
            for each in registry.all_dependencies(name)
        }
        return [*names, *sorted(above - set(names))]

    def reach(self, manifest: Manifest, names: Iterable[str]) -> int:
        """Return the newest epoch that relations have in a manifest of these definitions.

        Raises:
            NoCommonEpoch: a view began after the epoch that another one is at.
        """
        progress, wanted = ViewProgress.from_state(manifest.state), list(names)
        at = progress.reach(wanted, manifest.epoch)
        if at < manifest.epoch:
            progress.require(self.upstream(wanted), at, wanted)
        return at

    def relations_at(self, manifest: Manifest) -> StoragePlan:
        """Return the physical graph as it was stored in a manifest of these definitions."""
        relations = self.catalog.relations
        return relations if manifest is self.manifest else relations.stored_in(manifest)
