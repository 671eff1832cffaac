"""What pages that need nothing beside themselves are put together with."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any


def asset(package: str, name: str) -> str:
    """The text of a file that lies in a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def filled(template: str, parts: Mapping[str, str]) -> str:
    """A template with its `{{places}}` filled in one pass, so that a token which reads like a place stays a token.

    >>> filled("<b>{{a}}</b>", {"a": "{{b}}", "b": "no"})
    '<b>{{b}}</b>'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def json_in_script(value: Any) -> str:
    r"""JSON that can stand inside a script element.

    Only "<" could end it there; the others keep careless readers of HTML from mistakes.

    >>> print(json_in_script(["</script>"]))
    ["\u003c/script\u003e"]
    """
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def framed(page: str, title: str, *, height: int, allowed: str = "allow-scripts") -> str:
    """A page inside a frame, for a notebook; nothing in it can touch what is around it.

    Arguments:
        page: the whole page.
        title: in plain text.
        height: of the frame, in CSS pixels.
        allowed: what the frame's sandbox lets it do.
    """
    return (
        f'<iframe title="{html.escape(title)}" sandbox="{allowed}" srcdoc="{html.escape(page)}" '
        f'style="width: 100%; height: {height}px; border: 1px solid #8884; border-radius: 8px"></iframe>'
    )
