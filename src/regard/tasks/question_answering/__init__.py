"""Answers that are passages of a context."""
