"""What stays of Hadoop's configuration."""

from __future__ import annotations

import pytest

from laminar.runtime.spark.hadoop import wanted


@pytest.mark.parametrize(
    ("name", "resource", "stays"),
    [
        ("yarn.acl.enable", "yarn-default.xml", False),
        ("mapreduce.job.maps", "mapred-default.xml", False),
        ("fs.s3a.impl", "core-default.xml", True),
        ("yarn.acl.enable", "yarn-site.xml", True),
        ("mapreduce.fileoutputcommitter.algorithm.version", "programmatically", True),
    ],
)
def test_what_nobody_has_set_goes(name: str, resource: str, stays: bool) -> None:
    entries = [{"key": name, "value": "x", "resource": resource}]
    assert wanted(entries) == ({name: "x"} if stays else {})
