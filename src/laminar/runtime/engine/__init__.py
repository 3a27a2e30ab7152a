"""The parts put together: opened, recovered, driven, closed."""
