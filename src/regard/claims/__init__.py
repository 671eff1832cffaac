"""Comparisons of variants on an equal budget, and the papers' claims as comparisons with a judge."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.claims.claim import Claim, claims
    from regard.claims.compared import Compared
    from regard.claims.comparing import compare
    from regard.claims.comparison import Comparison, read_comparison
    from regard.claims.measure import Measure, read_measures
    from regard.claims.verdict import Verdict, run_claim

_HOMES = {
    "Claim": "claim",
    "Compared": "compared",
    "Comparison": "comparison",
    "Measure": "measure",
    "Verdict": "verdict",
    "claims": "claim",
    "compare": "comparing",
    "read_comparison": "comparison",
    "read_measures": "measure",
    "run_claim": "verdict",
}

__all__ = [
    "Claim",
    "Compared",
    "Comparison",
    "Measure",
    "Verdict",
    "claims",
    "compare",
    "read_comparison",
    "read_measures",
    "run_claim",
]


def __getattr__(name: str) -> object:
    # Import on first use: listing claims must not wait for plots and training.
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
