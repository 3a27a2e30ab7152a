"""What is defined: tables, views, options, settings, and where each relation is stored."""
