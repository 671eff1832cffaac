"""What weights, gradients and hidden states say: head statistics, rollout, attribution, probes."""

from regard.inspection.analysis.attribution import Attribution, TokenAttributions, attribute, attribute_scored
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
from regard.inspection.analysis.probing import LayerProbe, Probed
from regard.inspection.analysis.rollout import Rollout
from regard.inspection.analysis.scores import SCORES, ReadTokens, Scored, TargetProbability, TaskScore, TextProbability

__all__ = [
    "DELIMITERS",
    "PLACES",
    "SCORES",
    "Attribution",
    "Criteria",
    "GradientTimesInput",
    "Gradients",
    "Head",
    "HeadStatistics",
    "InputGradients",
    "IntegratedGradients",
    "LayerProbe",
    "Method",
    "Probed",
    "ReadTokens",
    "Rollout",
    "Scored",
    "Share",
    "TargetProbability",
    "TaskScore",
    "TextProbability",
    "TokenAttributions",
    "attribute",
    "attribute_scored",
    "hidden_states",
    "token",
    "zeros",
]
