"""Old names in saved folders and recipes, which can still be opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TASKS: Mapping[str, str] = {"picture_classification": "image_classification"}
"""Old and present names of tasks, in regard.json and in recipes."""

CONFIG: Mapping[str, str] = {
    "picture_height": "image_height",
    "picture_width": "image_width",
    "picture_channels": "image_channels",
}
"""Old and present names of fields of config.json in Regard's own layout."""

DATA: Mapping[str, Mapping[str, str]] = {
    "captioning": {"pictures": "images", "validation_pictures": "validation_images"}
}
"""Old and present names of settings in the section `data` of recipes, by task."""


def renamed_keys(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The mapping with the present names of its keys.

    >>> renamed_keys({"picture_height": 8, "patch": 4}, CONFIG)
    {'image_height': 8, 'patch': 4}
    """
    return {names.get(key, key): value for key, value in values.items()}


def renamed_task(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The mapping with the present name of the task under `key`, if there is one."""
    name = values.get(key)
    return {**values, key: TASKS.get(name, name)} if isinstance(name, str) else dict(values)


def renamed_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's values with the present names of its task and of its settings.

    >>> renamed_recipe({"task": "captioning", "data": {"pictures": "photos.zip"}})
    {'task': 'captioning', 'data': {'images': 'photos.zip'}}
    """
    found = renamed_task(values, "task")
    names, data = DATA.get(str(found.get("task")), {}), found.get("data")
    return {**found, "data": renamed_keys(data, names)} if names and isinstance(data, Mapping) else found
