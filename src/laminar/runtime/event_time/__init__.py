"""Watermarks, what is due by them, and what came too late."""
