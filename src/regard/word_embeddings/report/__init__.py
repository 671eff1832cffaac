"""Reports on word embeddings as one offline HTML page."""

from regard.word_embeddings.report.figures import Subject
from regard.word_embeddings.report.page import html_page

__all__ = ["Subject", "html_page"]
