"""Running epochs on Spark."""
