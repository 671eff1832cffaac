"""What weights, gradients and hidden states say: head statistics, rollout, attribution, probes, rank by depth."""

from regard.inspection.analysis.attribution import Attribution, TokenAttributions, attribute, attribute_scored
from regard.inspection.analysis.collapse import Collapse, depth_table, stack_addresses
from regard.inspection.analysis.collapse_forms import collapse_figure, collapse_forms
from regard.inspection.analysis.encoder_scores import (
    AnswerProbability,
    ChoiceProbability,
    ClassProbability,
    Likeness,
    MaskProbability,
    PredictedValue,
    TagProbability,
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
from regard.inspection.analysis.head import PLACES, Criteria, Head, Share
from regard.inspection.analysis.head_statistics import DELIMITERS, HeadStatistics
from regard.inspection.analysis.hidden_states import hidden_states
from regard.inspection.analysis.paths import PathLengths
from regard.inspection.analysis.probing import LayerProbe, Probed
from regard.inspection.analysis.rank_one import composite_norm, relative_residual, row_residual
from regard.inspection.analysis.rollout import Rollout
from regard.inspection.analysis.scored import ReadTokens, Scored, TaskScore
from regard.inspection.analysis.scores import SCORES, TargetProbability, TextProbability

__all__ = [
    "DELIMITERS",
    "PLACES",
    "SCORES",
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
    "MaskProbability",
    "Method",
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
    "depth_table",
    "hidden_states",
    "relative_residual",
    "row_residual",
    "stack_addresses",
    "token",
    "zeros",
]
