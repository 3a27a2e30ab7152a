"""Spark through PySpark's documented API alone: any version, Spark Connect too."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from laminar.store import SegmentStore


class PortableSpark:
    """Every epoch analyses and plans its statements anew; see `access.SparkAccess`."""

    name: ClassVar[str] = "portable"

    @staticmethod
    def start(conf: SparkConf) -> None:
        """Start Java and its Spark; what Java itself has to say is shown."""
        from pyspark import SparkContext

        SparkContext.getOrCreate(conf)

    def lighten(self, spark: SparkSession) -> None:
        """Leave Hadoop's configuration as it is: no documented call changes it."""

    def set_in(self, session: SparkSession) -> dict[str, str]:
        """Return the settings that are set in a session, one by one."""
        return dict(session.conf.getAll)

    def statement_cache(self, session: SparkSession, store: SegmentStore) -> None:
        """Keep nothing: that a frame of last epoch would read other files now is not promised."""
