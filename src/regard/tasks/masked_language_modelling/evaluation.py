"""How good a masked language model is on texts it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from regard.data.batching import Batches
from regard.data.malformed import MalformedRows
from regard.data.running_text import Document
from regard.data.sentence_pairs import Cutting, write_documents
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers.output import check_number
from regard.tasks.encoders import BATCH_TOKENS
from regard.tasks.masked_language_modelling.data import MaskedTextData
from regard.tasks.masked_language_modelling.documents import Given, encoded, in_memory, reader
from regard.tasks.masked_language_modelling.masked_language_model import MaskedLanguageModel
from regard.tasks.masked_language_modelling.stores import write_inputs
from regard.tasks.masked_language_modelling.task import MaskedLanguageModellingTask
from regard.tasks.task import LossSum


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: of the hidden tokens `masked_loss`, the mean of -log p, natural log, `perplexity`, exp of it, and
            `masked_accuracy`; of pairs `next_sentence_loss` and `next_sentence_accuracy`; `loss`, the sum of both losses.
        count: inputs that were cut from the documents.
        documents: how many.
        hidden: tokens that were hidden and told.
        note: what a reader of the figures has to know; empty where there is nothing.
        predictions: none; the command line asks.
    """

    metrics: dict[str, float]
    count: int
    documents: int
    hidden: int
    note: str = ""
    predictions: tuple[()] = field(repr=False, default=())


def evaluate_masked(
    model: MaskedLanguageModel, documents: Given, *, seed: int = 0, batch_tokens: int = BATCH_TOKENS
) -> MaskedEvaluation:
    """Hide tokens of documents and compare what a model tells with what stood there, as a run does with its validation data.

    Documents are cut into inputs, pairs where the model tells of next sentences, and tokens are hidden as in its training. The
    same seed gives the same inputs and hides the same tokens whatever the model, if it has the same tokenizer.

    Arguments:
        documents: each a text, whose paragraphs have empty lines between them, or the list of its sentences.
        seed: of all chances.
        batch_tokens: tokens read together. It does not change the answers, only memory and speed.

    Raises:
        InputError: for an empty list, or documents in which there is nothing.
    """
    if isinstance(documents, str) or not documents:
        raise InputError("there is nothing to evaluate; give a list with at least one document")
    task = model.task
    unknown = (model.recipe.get("data") or {}).get("cleaning") == "wikitext"
    with TemporaryDirectory() as folder:
        written = encoded(in_memory(documents), task.tokenizer, unknown=unknown)
        store = write_documents(Path(folder) / "documents", written, vocabulary=task.tokenizer.size)
        if len(store) < 2:
            task = replace(task, next_sentence=False)
        room = model.maximum_length - (3 if task.next_sentence else 2)
        cutting = Cutting(documents=store, rows=np.arange(len(store)), room=room, seed=seed)
        inputs = cutting.pairs() if task.next_sentence else cutting.stretches()
        write_inputs(Path(folder), "inputs", task.tokenizer, inputs, next_sentence=task.next_sentence)
        data = TokenStore.open(Path(folder) / "inputs")
        sums = _sums(model, task, data, batch_tokens)
    own, further = sums[""], {name: one for name, one in sums.items() if name}
    metrics = task.metrics_of(own[0] / own[1], own[2] / own[1])
    for name, (total, labels, right) in further.items():
        metrics["loss"] += total / labels
        metrics |= task.metrics_beside(name, total / labels, right / labels)
    alone = task.next_sentence != model.task.next_sentence
    note = "One document gives no pairs, so next sentences were not asked for." if alone else ""
    return MaskedEvaluation(metrics=metrics, count=len(data), documents=len(store), hidden=int(own[1]), note=note)


def read_documents_of(data: MaskedTextData, malformed: MalformedRows) -> Iterator[Document]:
    """The documents that `data.train` names, each as its sentences."""
    read = reader(data, data.train, None, "training")
    if read is None:
        raise InputError("no file of text is named; name one")
    return read(malformed)


def _sums(
    model: MaskedLanguageModel, task: MaskedLanguageModellingTask, data: TokenStore, batch_tokens: int
) -> dict[str, tuple[float, int, int]]:
    """Loss, labels and right ones, over all inputs: of hidden tokens under the empty name, then of what is beside."""
    sums: dict[str, tuple[float, int, int]] = {}
    for rows in Batches(task.lengths(data), maximum_tokens=batch_tokens).in_order():
        batch = task.read_batch(data, rows.tolist()).to(model.device)
        with torch.no_grad():
            loss = task.loss(model.model, batch)
        found: dict[str, LossSum] = {"": loss, **loss.beside}
        for name, part in found.items():
            total, labels, right = sums.get(name, (0.0, 0, 0))
            sums[name] = (
                total + check_number(part.total.item(), "these texts"),
                labels + part.tokens,
                right + int(part.correct),
            )
        model.tell([None] * len(rows))
    return sums
