"""What leaves: the log of changes, sinks, subscriptions."""
