"""The old name of `regard.quantization`, for one release."""

from __future__ import annotations

import warnings

from regard import quantization

warnings.warn("regard.prepared is called regard.quantization; use that name", DeprecationWarning, stacklevel=2)


def __getattr__(name: str) -> object:
    return getattr(quantization, name)
