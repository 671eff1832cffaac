"""Web pages from templates and ES modules, written as one offline file or served."""

from regard.web.pages import framed, html_table, json_in_script, page, signed_colours

__all__ = ["framed", "html_table", "json_in_script", "page", "signed_colours"]
