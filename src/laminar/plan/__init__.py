"""From a SELECT statement to a relational plan."""
