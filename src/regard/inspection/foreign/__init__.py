"""Attention of modules that this package knows nothing about: seen where they call torch."""

from regard.inspection.foreign.attended import Attended
from regard.inspection.foreign.forwards import Around, addresses_of, around_forward, is_compiled
from regard.inspection.foreign.fused_layers import FusedLayers
from regard.inspection.foreign.interception import Interception, Listener
from regard.inspection.foreign.places import Place

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
