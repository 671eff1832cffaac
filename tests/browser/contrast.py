"""How well what is written on a page stands out: see `contrast.js`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def low_contrast(page: Any) -> list[str]:
    """Texts of a page with less contrast than 4.5, or 3 where they are large; drawn ones too."""
    # Past what `visit` puts around `evaluate`.
    return type(page).evaluate(page, f"async () => {{ {SCRIPT}\nwatch(); return low(); }}")
