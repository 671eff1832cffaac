"""What weights, gradients and hidden states say: head statistics, rollout, attribution, lenses, probes, rank by depth."""

from regard.inspection.analysis.attribution import (
    SCORES,
    Attribution,
    TargetProbability,
    TextProbability,
    TokenAttributions,
    attribute,
    attribute_scored,
)
from regard.inspection.analysis.collapse import (
    Collapse,
    PathLengths,
    collapse_figure,
    collapse_forms,
    composite_norm,
    rank_table,
    relative_residual,
    row_residual,
    stack_addresses,
)
from regard.inspection.analysis.encoder_scores import (
    AnswerProbability,
    ChoiceProbability,
    ClassProbability,
    Likeness,
    MaskProbability,
    PredictedValue,
    ReadTokens,
    Scored,
    TagProbability,
    TaskScore,
)
from regard.inspection.analysis.gradients import (
    Gradients,
    GradientTimesInput,
    InputGradients,
    IntegratedGradients,
    Method,
    token,
    zeros,
)
from regard.inspection.analysis.head_sums import PLACES
from regard.inspection.analysis.heads import DELIMITERS, SPECIALS, Criteria, Head, HeadStatistics, Share
from regard.inspection.analysis.lens import LogitLens
from regard.inspection.analysis.logit_attribution import LogitAttribution, Part
from regard.inspection.analysis.probing import LayerProbe, Probed, hidden_states
from regard.inspection.analysis.rollout import Rollout
from regard.old_names import old_attributes

__all__ = [
    "DELIMITERS",
    "PLACES",
    "SCORES",
    "SPECIALS",
    "AnswerProbability",
    "Attribution",
    "ChoiceProbability",
    "ClassProbability",
    "Collapse",
    "Criteria",
    "GradientTimesInput",
    "Gradients",
    "Head",
    "HeadStatistics",
    "InputGradients",
    "IntegratedGradients",
    "LayerProbe",
    "Likeness",
    "LogitAttribution",
    "LogitLens",
    "MaskProbability",
    "Method",
    "Part",
    "PathLengths",
    "PredictedValue",
    "Probed",
    "ReadTokens",
    "Rollout",
    "Scored",
    "Share",
    "TagProbability",
    "TargetProbability",
    "TaskScore",
    "TextProbability",
    "TokenAttributions",
    "attribute",
    "attribute_scored",
    "collapse_figure",
    "collapse_forms",
    "composite_norm",
    "hidden_states",
    "rank_table",
    "relative_residual",
    "row_residual",
    "stack_addresses",
    "token",
    "zeros",
]

__getattr__ = old_attributes(__name__, {"depth_table": "rank_table"})
