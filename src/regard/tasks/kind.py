"""The old name of `regard.tasks.TaskSpec`, for one release."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.tasks.spec import TaskSpec as Kind

__all__ = ["Kind"]


def __getattr__(name: str) -> Any:
    if name != "Kind":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from regard.tasks.spec import TaskSpec

    warnings.warn("regard.tasks.Kind is called regard.tasks.TaskSpec; use that name", DeprecationWarning, stacklevel=2)
    return TaskSpec
