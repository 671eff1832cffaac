"""The viewer: attention as one self-contained page."""

from regard.inspection.viewer.page import html_fragment, html_page, save_page

__all__ = ["html_fragment", "html_page", "save_page"]
