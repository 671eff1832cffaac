"""Shell completion beyond file names (`regard --install-completion`)."""

from __future__ import annotations

from pathlib import Path

from regard.files import recipe_folder


def recipes(incomplete: str) -> list[str]:
    """Recipes of the package by name, then folders and YAML files that start with the text.

    >>> recipes("date")[0]
    'dates'
    """
    names = sorted(path.stem for path in recipe_folder().glob("*.yaml") if path.stem.startswith(incomplete))
    place, _, start = incomplete.rpartition("/")
    folder = Path(f"{place}/") if "/" in incomplete else Path()
    try:
        found = sorted(
            path for path in folder.iterdir() if path.name.startswith(start) and not path.name.startswith(".")
        )
    except OSError:
        found = []
    within = incomplete[: len(incomplete) - len(start)]
    names += [f"{within}{path.name}/" for path in found if path.is_dir()]
    return names + [f"{within}{path.name}" for path in found if path.suffix in (".yaml", ".yml") and path.is_file()]
