"""A web console for a database's folder: read-only, beside a running writer, without Spark."""
