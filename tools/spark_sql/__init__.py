"""Spark's own SQL test files as views of ours; see `tools/spark_sql_tests.py`."""
