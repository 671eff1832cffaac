"""Web pages: one shell, ES modules and templates, written as one offline file or served as they are."""

from regard.web.pages import framed, json_in_script, page, signed_colours

__all__ = ["framed", "json_in_script", "page", "signed_colours"]
