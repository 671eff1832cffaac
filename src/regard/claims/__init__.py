"""Comparisons of variants on an equal budget, and the papers' claims as comparisons with a judge."""

from regard.claims.claim import Claim, claims
from regard.claims.compared import Compared
from regard.claims.comparing import compare
from regard.claims.comparison import Comparison, read_comparison
from regard.claims.measure import Measure, read_measures
from regard.claims.verdict import Verdict, run_claim

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
