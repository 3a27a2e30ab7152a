"""The trades DAG, by Laminar and by Spark's own streaming, on the same files."""
