"""`laminar_system`: what the system knows of itself, as relations."""

from laminar.runtime.system import inputs, outputs, state, topology, views
from laminar.runtime.system.table import SystemTable

TABLES: dict[str, SystemTable] = {
    table.name: table
    for group in (topology, views, inputs, outputs, state)
    for table in group.TABLES
}
"""Every relation of the schema, by name."""

__all__ = ["TABLES", "SystemTable"]
