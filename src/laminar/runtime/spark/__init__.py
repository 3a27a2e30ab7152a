"""Everything that knows Spark: sessions, kept statements and plans, errors in our words."""
