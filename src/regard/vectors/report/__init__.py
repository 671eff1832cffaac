"""What was found of vectors of words, as one offline page."""

from regard.vectors.report.figures import Subject
from regard.vectors.report.page import html_page

__all__ = ["Subject", "html_page"]
