"""Thin commands. Nothing heavy is imported before a command runs, so that `regard --help` answers at once."""
