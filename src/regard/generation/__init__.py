"""Decoding over any `Decoder`, recurrent or Transformer: greedy search, sampling, beam search."""

from regard.generation.beam import beam_search
from regard.generation.choosing import Chooser, Greedy, Sample, SampleRows
from regard.generation.continuation import Continuation, Room
from regard.generation.hypothesis import Hypothesis
from regard.generation.observer import SearchObserver
from regard.generation.paths import Paths
from regard.generation.penalties import AverageLength, CoveragePenalty, GnmtLength, LengthPenalty
from regard.generation.settings import GenerationSettings, search
from regard.generation.stopping import FixedLength, LengthLimit, RelativeLength, StopRule, StopSequence
from regard.generation.streaming import Step, generate, stream
from regard.generation.transforms import Forbid, LogitTransform, MinimumLength, MinP, Temperature, TopK, TopP

__all__ = [
    "AverageLength",
    "Chooser",
    "Continuation",
    "CoveragePenalty",
    "FixedLength",
    "Forbid",
    "GenerationSettings",
    "GnmtLength",
    "Greedy",
    "Hypothesis",
    "LengthLimit",
    "LengthPenalty",
    "LogitTransform",
    "MinP",
    "MinimumLength",
    "Paths",
    "RelativeLength",
    "Room",
    "Sample",
    "SampleRows",
    "SearchObserver",
    "Step",
    "StopRule",
    "StopSequence",
    "Temperature",
    "TopK",
    "TopP",
    "beam_search",
    "generate",
    "search",
    "stream",
]
