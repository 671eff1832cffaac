"""Looking inside: the recorder, its record, images of attention; changing what is inside, and what comes of it."""

from regard.inspection.editing import MeanHeads, ScaleHeads, SetHeads, SetOutput, SetWeights, ablate, change, patch
from regard.inspection.editing.edits import prune
from regard.inspection.hooks.interception import attention_addresses
from regard.inspection.record import Record, look
from regard.inspection.recorder import Recorder
from regard.inspection.runs import Run
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.walk import Walk, walk, walk_attention

__all__ = [
    "AttentionMap",
    "AttentionView",
    "MeanHeads",
    "Record",
    "Recorder",
    "Run",
    "ScaleHeads",
    "SetHeads",
    "SetOutput",
    "SetWeights",
    "Walk",
    "ablate",
    "attention_addresses",
    "change",
    "look",
    "patch",
    "prune",
    "walk",
    "walk_attention",
]
