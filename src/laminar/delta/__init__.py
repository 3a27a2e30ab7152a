"""From a relational plan to the statements that keep it up to date."""
