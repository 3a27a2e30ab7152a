from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from laminar.runtime.spark.java_names import remember_names
from laminar.runtime.spark.session import own_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_no_class_is_looked_up_again_for_a_statement(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_names(spark)
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send, asked = client.send_command, list[str]()

    def noted(command: str, *args: Any, **options: Any) -> Any:
        asked.append(command)
        return send(command, *args, **options)

    monkeypatch.setattr(client, "send_command", noted)
    session = own_session(spark, 2)
    session.sql("SELECT 1 AS one").createOrReplaceTempView("v")
    assert session.table("v").collect()[0].one == 1
    unknown = [each.split("\n")[2] for each in asked if each.startswith("r\nu\n")]
    assert len(asked) > 10
    assert unknown == []
