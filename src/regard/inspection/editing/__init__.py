"""Changing what happens inside a model while it runs, and measuring what comes of it."""

from regard.inspection.editing.edits import (
    Edit,
    MeanHeads,
    ScaleHeads,
    SetHeads,
    SetOutput,
    SetWeights,
    change,
    without_feedforward,
    without_skips,
)
from regard.inspection.editing.effects import Effect, Effects, ablate, patch

__all__ = [
    "Edit",
    "Effect",
    "Effects",
    "MeanHeads",
    "ScaleHeads",
    "SetHeads",
    "SetOutput",
    "SetWeights",
    "ablate",
    "change",
    "patch",
    "without_feedforward",
    "without_skips",
]
