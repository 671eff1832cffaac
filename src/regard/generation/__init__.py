"""Decoding over any `Decoder`, recurrent or Transformer: greedy search, sampling, beam search."""

from typing import TYPE_CHECKING

from regard.generation.beam import beam_search
from regard.generation.beam_tree import BeamTree, Tried
from regard.generation.choosing import Chooser, Greedy, Sample, SampleRows
from regard.generation.continuation import Continuation, PositionLimit
from regard.generation.continuous import ContinuousBatch, PromptRead, RequestFailed, TextRequest, TokenEvent, top_of
from regard.generation.hypothesis import Hypothesis, Paths, PauseObserver, SearchObserver, SearchStep, StepObserver
from regard.generation.penalties import (
    AverageLength,
    CoveragePenalty,
    FixedLength,
    GnmtLength,
    LengthLimit,
    LengthPenalty,
    RelativeLength,
    StopRule,
    StopSequence,
)
from regard.generation.settings import GenerationSettings, search
from regard.generation.speculation import NGramDraft, Speculated, Speculation
from regard.generation.streaming import NextToken, Step, generate, stream
from regard.generation.transforms import (
    Forbid,
    FrequencyPenalty,
    LogitBias,
    LogitTransform,
    MinimumLength,
    MinP,
    PresencePenalty,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    biases_by_id,
)
from regard.old_names import old_attributes

__all__ = [
    "AverageLength",
    "BeamTree",
    "Chooser",
    "Continuation",
    "ContinuousBatch",
    "CoveragePenalty",
    "FixedLength",
    "Forbid",
    "FrequencyPenalty",
    "GenerationSettings",
    "GnmtLength",
    "Greedy",
    "Hypothesis",
    "LengthLimit",
    "LengthPenalty",
    "LogitBias",
    "LogitTransform",
    "MinP",
    "MinimumLength",
    "NGramDraft",
    "NextToken",
    "Paths",
    "PauseObserver",
    "PositionLimit",
    "PresencePenalty",
    "PromptRead",
    "RelativeLength",
    "RepetitionPenalty",
    "RequestFailed",
    "Sample",
    "SampleRows",
    "SearchObserver",
    "SearchStep",
    "Speculated",
    "Speculation",
    "Step",
    "StepObserver",
    "StopRule",
    "StopSequence",
    "Temperature",
    "TextRequest",
    "TokenEvent",
    "TopK",
    "TopP",
    "Tried",
    "beam_search",
    "biases_by_id",
    "generate",
    "search",
    "stream",
    "top_of",
]

if not TYPE_CHECKING:
    __getattr__ = old_attributes(
        __name__,
        {"Room": "PositionLimit", "Told": "TokenEvent", "Wanted": "TextRequest", "Refused": "RequestFailed"},
    )
