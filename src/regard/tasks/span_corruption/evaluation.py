"""How well a model tells the spans that are taken out of texts it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.batching import Batches
from regard.data.malformed import MalformedRows
from regard.data.running_text import Document
from regard.errors import InputError
from regard.layers.output import check_number
from regard.tasks.masked_language_modelling.documents import Given, encoded, in_memory, reader
from regard.tasks.span_corruption.data import SpanTextData
from regard.tasks.span_corruption.preparation import stretches
from regard.tasks.span_corruption.span_filler import SpanFiller


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `loss`, the mean of -log p over the tokens of targets, natural log; `perplexity`, exp of it; and
            `token_accuracy`, the share of tokens that were the most probable one. Sentinels and end tokens count.
        count: stretches of text.
        tokens: of their targets.
        predictions: none; nothing is written.
    """

    metrics: dict[str, float]
    count: int
    tokens: int
    predictions: tuple[()] = ()


def evaluate_spans(
    model: SpanFiller, documents: Given, *, length: int | None = None, batch_tokens: int = 16_384
) -> SpanEvaluation:
    """Take spans out of texts, the same at every call, and ask the model for each token of them.

    Arguments:
        documents: each a text, whose paragraphs have empty lines between them, or the list of its lines.
        length: tokens of an input, as in training; the recipe's where None.
        batch_tokens: tokens computed together, of input and target, padding included; the numbers are the same for any.

    Raises:
        InputError: for an empty list, or less than two tokens.
    """
    if isinstance(documents, str) or not documents:
        raise InputError("there is nothing to evaluate; give a list with at least one text")
    task = model.task
    data = model.recipe.get("data") or {}
    room = task.corruption.stretch(length or int(data.get("length", 512)))
    ids = encoded(in_memory(documents), task.tokenizer, unknown=data.get("cleaning") == "wikitext")
    texts = list(stretches(ids, room))
    if not texts:
        raise InputError("there is nothing to evaluate; the texts have less than two tokens")
    lengths = task.corruption.lengths(np.array([len(text) for text in texts]))
    total, tokens, correct = 0.0, 0, 0
    with torch.no_grad():
        for rows in Batches(lengths, maximum_tokens=batch_tokens).in_order():
            parts = task.corruption.corrupt([texts[row] for row in rows], rows.tolist(), task.tokenizer.sentinels)
            batch = task.batch([each.input.tolist() for each in parts], [each.target.tolist() for each in parts])
            found = task.loss(model.model, batch.to(model.device))
            total += check_number(found.total.item(), "these texts")
            tokens += found.tokens
            correct += int(found.correct)
    metrics = task.metrics_of(total / tokens, correct / tokens)
    return SpanEvaluation(metrics=metrics, count=len(texts), tokens=tokens)


def read_span_texts(data: SpanTextData, malformed: MalformedRows) -> Iterator[Document]:
    """The documents that `data.train` names, each as its lines."""
    read = reader(data, data.train, None, "training")
    if read is None:
        raise InputError("no file of text is named; name one")
    return read(malformed)
