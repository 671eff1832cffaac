"""Checks whether a folder is complete and undamaged, and which programs can open it."""

from regard.checking.check import check
from regard.checking.files import CheckedFile, Report

__all__ = ["CheckedFile", "Report", "check"]
