"""Whether a folder is whole, and who opens it."""

from regard.checking.check import check
from regard.checking.files import CheckedFile, Report

__all__ = ["CheckedFile", "Report", "check"]
