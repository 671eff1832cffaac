"""The walk: one query's way through one attention, step by step, with a model's own numbers and the lines that compute them."""

from regard.inspection.walk.alignments import alignment_steps
from regard.inspection.walk.mechanism_steps import weight_steps
from regard.inspection.walk.scores import score_steps
from regard.inspection.walk.steps import Shown, SourceLine, Step
from regard.inspection.walk.walking import Walk, walk, walk_attention

__all__ = [
    "Shown",
    "SourceLine",
    "Step",
    "Walk",
    "alignment_steps",
    "score_steps",
    "walk",
    "walk_attention",
    "weight_steps",
]
