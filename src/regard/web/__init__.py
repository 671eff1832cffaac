"""Web pages: one shell, ES modules and templates, written as one offline file or served as they are."""

from regard.web.pages import framed, html_table, json_in_script, page, signed_colours

__all__ = ["framed", "html_table", "json_in_script", "page", "signed_colours"]
