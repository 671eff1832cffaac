"""The commands. Imports that take time are made when a command runs, so that `regard --help` is fast."""
