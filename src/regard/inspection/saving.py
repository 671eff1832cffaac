"""A view into a file of the kind that its name says."""

from __future__ import annotations

import os
from pathlib import Path

from regard.inspection.view import AttentionView


def save_view(view: AttentionView, path: str | os.PathLike[str]) -> None:
    """Write a view into a file of the kind its suffix says: `.html`, `.png`, `.svg` or `.json`.

    Raises:
        InputError: for another suffix, or a place that cannot be written to.
    """
    if Path(path).suffix.lower() in (".html", ".htm"):
        from regard.inspection.viewer import save_page

        save_page(view, path)
    else:
        from regard.inspection.plots import save_plot

        save_plot(view, path)
