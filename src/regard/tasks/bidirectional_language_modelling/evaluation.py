"""How good a bidirectional language model is on texts it has not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.errors import InputError
from regard.tasks.bidirectional_language_modelling.bidirectional_language_model import (
    BATCH_WORDS,
    BidirectionalLanguageModel,
)
from regard.tasks.bidirectional_language_modelling.sentences import spelt
from regard.tasks.masked_language_modelling.documents import Given, in_memory

SCORED_TOGETHER = 2_000
"""Sentences whose scores are in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BidirectionalEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `forward_perplexity` and `backward_perplexity`, by word; `perplexity`, their mean; `loss`, the sum of both mean
            losses, natural log; `unknown_share`, of the words that are told as the one unknown word, which flatters a model.
        count: sentences.
        words: in them.
        predictions: none; the command line asks.
    """

    metrics: dict[str, float]
    count: int
    words: int
    predictions: tuple[()] = field(repr=False, default=())


def evaluate_bidirectional(
    model: BidirectionalLanguageModel, documents: Given, *, batch_words: int = BATCH_WORDS
) -> BidirectionalEvaluation:
    """Tell every word of some texts from both sides, sentence by sentence, in stretches as long as those of the training.

    Arguments:
        documents: each a text, whose paragraphs have empty lines between them, or the list of its sentences.
        batch_words: words read together. It does not change the answers, only memory and speed.

    Raises:
        InputError: for an empty list, or documents in which there is nothing.
    """
    if isinstance(documents, str) or not documents:
        raise InputError("there is nothing to evaluate; give a list with at least one document")
    sentences = [sentence for document in in_memory(documents) for sentence in document]
    parts = [" ".join(each.words) for each in spelt(model.task.tokenizer, sentences, length=model.task.length)]
    if not parts:
        raise InputError("there is no word in the documents; give some text")
    forward, backward, told, unknown = 0.0, 0.0, 0, 0
    for some in _some(parts):
        for score in model.score_batch(some, batch_words=batch_words):
            forward, backward = forward - math.fsum(score.forward), backward - math.fsum(score.backward)
            told, unknown = told + len(score.forward), unknown + score.unknown
        model.tell(len(some))
    ahead, behind = forward / told, backward / told
    perplexities = [math.exp(min(700.0, mean)) for mean in (ahead, behind)]
    words = told - len(parts)
    return BidirectionalEvaluation(
        metrics={
            "loss": ahead + behind,
            "perplexity": sum(perplexities) / 2,
            "forward_perplexity": perplexities[0],
            "backward_perplexity": perplexities[1],
            "unknown_share": unknown / words,
        },
        count=len(parts),
        words=words,
    )


def _some(parts: Sequence[str]) -> list[Sequence[str]]:
    return [parts[start : start + SCORED_TOGETHER] for start in range(0, len(parts), SCORED_TOGETHER)]
