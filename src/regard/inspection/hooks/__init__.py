"""Attention of modules that this package knows nothing about: seen where they call torch."""

from regard.inspection.hooks.calls import Attended
from regard.inspection.hooks.fused_layers import FusedLayers
from regard.inspection.hooks.interception import (
    Around,
    Interception,
    Listener,
    Place,
    addresses_of,
    around_forward,
    is_compiled,
)

__all__ = [
    "Around",
    "Attended",
    "FusedLayers",
    "Interception",
    "Listener",
    "Place",
    "addresses_of",
    "around_forward",
    "is_compiled",
]
