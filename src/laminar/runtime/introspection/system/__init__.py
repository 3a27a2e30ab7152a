"""`laminar_system`: what the system knows of itself, as relations."""

from laminar.runtime.introspection.system import epochs, sinks, sources, topology, views
from laminar.runtime.introspection.system.table import SystemTable

TABLES: dict[str, SystemTable] = {
    table.name: table
    for group in (topology, views, sources, sinks, epochs)
    for table in group.TABLES
}
"""Every relation of the schema, by name."""

__all__ = ["TABLES", "SystemTable"]
