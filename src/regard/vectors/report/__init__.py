"""What was found of vectors of words, as one offline page."""

from regard.vectors.report.page import html_page
from regard.vectors.report.subject import Subject

__all__ = ["Subject", "html_page"]
