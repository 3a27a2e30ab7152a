"""The command `laminar`."""

from laminar.cli.app import main

__all__ = ["main"]
