"""What a source has delivered becomes the delta of its table, when an epoch takes it.

Rows without a key are that delta as they are, until the source takes rows back
(`delta/taken_back.py`). With a key, a row takes the place of the one before, and one that is taken
back needs to name no more than its key (`runtime/ingest/primary_keys.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.delta.change import columns, quote
from laminar.delta.taken_back import NOT_THERE, net, not_there
from laminar.errors import RowNotDelivered, SourceReadFailed
from laminar.model.trace import ARRIVAL, WEIGHT, Segment
from laminar.runtime.ingest.primary_keys import replacement
from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.store import SegmentStore, discard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.catalog.definitions import TableDefinition

_PLACE = "__place"
_BEFORE, _NEW = "__table_before", "__delivered"


class DeliveredRows:
    """Works out deltas of sources.

    Args:
        session: where statements run.
        store: reads what was delivered, and keeps the delta.
    """

    def __init__(self, session: SparkSession, store: SegmentStore) -> None:
        self._session = session
        self._store = store

    def resolve(
        self,
        definition: TableDefinition,
        delivered: Segment,
        before: tuple[Segment, ...],
        epoch: int,
    ) -> Segment | None:
        """Store the delta that delivered rows stand for, in the place of the rows themselves.

        Rows that were pushed are a delta already.

        Raises:
            RowNotDelivered: a row is taken back that is not there.
            SourceReadFailed: they cannot be computed with.
        """
        is_keyed = definition.upserts
        if definition.connector is None or not (is_keyed or not delivered.insert_only):
            return delivered
        sql = self._keyed(definition, delivered, before) if is_keyed else None
        try:
            return self._store.materialise(
                definition.name,
                epoch,
                self._session.sql(sql or self._net(definition, delivered, before)),
                delivered.rows * 2,
                tuple(delivered.spans),
            )
        except SPARK_FAILS as error:
            if NOT_THERE in str(error):
                raise self._unknown(definition) from None
            raise SourceReadFailed(definition.name, first_sentence(error)) from error
        finally:
            discard(self._store.root, delivered.files)

    def _net(
        self, definition: TableDefinition, delivered: Segment, before: tuple[Segment, ...]
    ) -> str:
        schema = definition.shape.numbered
        self._store.frame(schema, before).createOrReplaceTempView(_BEFORE)
        self._store.frame(schema, (delivered,)).createOrReplaceTempView(_NEW)
        return net(definition.shape.row, f"SELECT * FROM {_BEFORE}", f"SELECT * FROM {_NEW}")

    def _unknown(self, definition: TableDefinition) -> RowNotDelivered:
        row = definition.shape.row
        sql = not_there(row, f"SELECT * FROM {_BEFORE}", f"SELECT * FROM {_NEW}")
        found = self._session.sql(sql).collect()
        return RowNotDelivered(definition.name, [each.asDict() for each in found])

    def _keyed(
        self, definition: TableDefinition, delivered: Segment, before: tuple[Segment, ...]
    ) -> str:
        self._store.frame(definition.shape.numbered, before).createOrReplaceTempView(_BEFORE)
        self._in_places(definition, delivered).createOrReplaceTempView(_NEW)
        newest = _newest(definition)
        there = f"SELECT * FROM ({newest}) WHERE {WEIGHT} > 0"
        return replacement(definition, f"SELECT * FROM {_BEFORE}", there, newest)

    def _in_places(self, definition: TableDefinition, delivered: Segment) -> DataFrame:
        """Return the rows with their place: which file of the segment, and which row of it."""
        names = ", ".join(f"'{file.rpartition('/')[2]}'" for file in delivered.files)
        place = f"STRUCT(ARRAY_POSITION(ARRAY({names}), _metadata.file_name) AS f,"
        place += " _metadata.row_index AS r)"
        frame = self._store.frame(definition.shape.numbered, (delivered,))
        # Not every connector checks what it delivers, and NULL would be no key at all.
        named = [
            f"COALESCE({quote(name)}, RAISE_ERROR('its key is NULL')) AS {quote(name)}"
            if name in definition.primary_key
            else quote(name)
            for name in definition.shape.columns
        ]
        return frame.selectExpr(*named, ARRIVAL, WEIGHT, f"{place} AS {_PLACE}")


def _newest(definition: TableDefinition) -> str:
    row = f"STRUCT({columns(definition.shape.columns)}, {ARRIVAL}, {WEIGHT})"
    keys = columns(definition.primary_key)
    return (
        f"SELECT __row.* FROM (SELECT MAX_BY({row}, {_PLACE}) AS __row FROM {_NEW} GROUP BY {keys})"
    )
