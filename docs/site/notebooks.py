"""The notebooks as pages of the site: their text and code, as they are committed, without outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

LINK = re.compile(r"\((?:\.\./)+notebooks/([\w-]+)\.ipynb\)")


def linked(text: str, to_docs: str = "") -> str:
    """A page whose links to notebooks lead to their pages.

    Arguments:
        text: of the page.
        to_docs: from the page to the folder `docs`, such as `../`.

    >>> linked("see [dates](../notebooks/dates.ipynb)")
    'see [dates](notebooks/dates.md)'
    """
    return LINK.sub(rf"({to_docs}notebooks/\1.md)", text)


def page(notebook: Path) -> str:
    """A notebook in Markdown, its title first, then a link to the file itself."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    title, _, rest = parts[0].partition("\n")
    file = f"[Download this notebook]({notebook.name}) and run it to see what it prints and shows."
    return "\n\n".join([title, file, rest.strip(), *parts[1:]]) + "\n"
