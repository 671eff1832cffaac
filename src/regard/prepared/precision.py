"""How many bits a weight may have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

QuantisedPrecision = Literal["int8", "int4"]
"""Weights of 8 bits, one scale for each output; or of 4, one for each output and 32 inputs."""

BITS: Mapping[QuantisedPrecision, Literal[8, 4]] = MappingProxyType({"int8": 8, "int4": 4})
"""Of each weight."""
