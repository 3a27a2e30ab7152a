"""Measurements: `python -m benchmarks [name ...]`."""
