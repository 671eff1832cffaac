"""Bidirectional language modelling, ELMo's pre-training: the next word and the one before (Peters et al. 2018)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.checkpoints import located
from regard.data.batching import Batches
from regard.data.malformed import MalformedRows
from regard.data.running_text import Document
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import Reduction, Tokens
from regard.layers.embeddings import check_finite
from regard.models.config import check
from regard.structure import coerced
from regard.tasks.bidirectional_data import BidirectionalTextData, Spelt, of_documents, spelt
from regard.tasks.documents import DOCUMENTS, builtin_documents
from regard.tasks.examples import Splits
from regard.tasks.losses import projected_cross_entropy, sampled_cross_entropy, sampled_words
from regard.tasks.predictor import Evaluation, Predictor
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, prepare, write_store
from regard.tasks.spec import TaskSpec
from regard.tasks.task import LossSum, Task, TensorBatch
from regard.text import Tokenizer
from regard.text.bpe import SPELLING_SIZE
from regard.text.word_list import WordList

TEXT, WORDS = "text", "words"
"""The columns of a token store: the bytes to read and the ids of the words to predict, both with begin and end marks."""

BACKWARD = "backward"
"""The name of the auxiliary loss: that of the backward model, which predicts a word from the words after it."""


@dataclass(frozen=True, slots=True, eq=False)
class BidirectionalBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        tokens: (B, L), bytes of words.
        words: (B, W) int64, the ids of words.
        valid: (B, W) bool, True = a word, False = padding.
        negatives: (S,) int64, the negative words of the sampled softmax; None = all words.
    """

    tokens: Tokens
    words: Tensor
    valid: Tensor
    negatives: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BidirectionalLanguageModellingTask(Task):
    """Turns sentences into tensors of bytes, and the outputs of a model into a loss (Peters et al. 2018, section 3.1).

        loss = - sum_k [ log p(t_k | t_1 .. t_{k-1}) + log p(t_k | t_{k+1} .. t_N) ]

    A sentence is between `<S>` and `</S>`: the forward model predicts `</S>` but not `<S>`, the backward model `<S>` but not
    `</S>`. Each sentence is read separately, from states of zeros.

    Arguments:
        tokenizer: a tokenizer of kind `spelling`.
        words: the words to predict.
        length: the maximum number of words of a sentence in training.
        sampled: the number of negative words to sample for each batch in training; 0 for all words.
    """

    name: ClassVar[str] = "bidirectional_language_modelling"
    unit: ClassVar[str] = "words"

    tokenizer: Tokenizer
    words: WordList
    length: int = 64
    sampled: int = 0

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of the sentences."""
        return {"text": self.tokenizer}

    def model_settings(self) -> dict[str, Any]:
        """The settings of a model's config that follow from the tokenizer and the word list."""
        return {
            "vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "words": len(self.words),
            "head": "none",
            "outputs": 0,
        }

    def batch(self, sentences: Sequence[Spelt]) -> BidirectionalBatch:
        """Sentences as a batch, with the softmax over all words."""
        return self._batch(
            [each.read(self.tokenizer) for each in sentences], [each.word_ids(self.words) for each in sentences]
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of words of each sentence, begin and end marks included, (N, 1)."""
        return data.lengths(WORDS)[:, None]

    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of words of each sentence that the forward model predicts, (N,)."""
        return data.lengths(WORDS) - 1

    def auxiliary_labels(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """The number of words that the backward model predicts, which is the same."""
        return {BACKWARD: self.labels(data)}

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> BidirectionalBatch:
        """The sentences of these rows as a batch, with the softmax over all words."""
        return self._batch(
            [data.sequence(TEXT, row).tolist() for row in rows], [data.sequence(WORDS, row).tolist() for row in rows]
        )

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> BidirectionalBatch:
        """The same batch, with the softmax over sampled words if the task samples."""
        found = self.read_batch(data, rows)
        if not self.sampled:
            return found
        negatives = sampled_words(len(self.words), self.sampled, key=(draw, int(rows[0])))
        return BidirectionalBatch(found.tokens, found.words, found.valid, torch.from_numpy(negatives))

    def loss(self, model: nn.Module, batch: BidirectionalBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the forward model, summed over words; that of the backward model is its auxiliary loss."""
        predicted = batch.valid[:, 1:]

        def both(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> list[tuple[Tensor, Tensor]]:
            found = []
            for side, labels in enumerate((batch.words[:, 1:], batch.words[:, :-1])):
                if batch.negatives is None:
                    loss = projected_cross_entropy(labels, valid=predicted, smoothing=smoothing)
                else:
                    loss = sampled_cross_entropy(labels, batch.negatives, valid=predicted, tries=self.sampled)
                found.append(loss(hidden[:, side], weight, bias))
            return found

        forward, backward = model(batch.tokens, reduce=both)
        count = int(predicted.sum())
        return LossSum(forward[0], count, forward[1], {BACKWARD: LossSum(backward[0], count, backward[1])})

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """Loss, perplexity and accuracy of the forward model; the caller adds the loss of the backward model to `loss`."""
        return {"loss": loss, "forward_perplexity": math.exp(min(50.0, loss)), "forward_accuracy": right}

    def auxiliary_metrics(self, name: str, loss: float, right: float) -> dict[str, float]:
        """Perplexity and accuracy of the backward model."""
        return {f"{name}_perplexity": math.exp(min(50.0, loss)), f"{name}_accuracy": right}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of words and the size of the vocabulary, as one line."""
        counts = [int(self.labels(data).sum()) for data in (train, validation)]
        against = f", {self.sampled:,} negative samples per batch" if self.sampled else ""
        return (
            f"{counts[0]:,} words to learn from, {counts[1]:,} to validate on, predicted in both directions; a vocabulary of "
            f"{len(self.words):,}{against}"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse sentences with more bytes than the model's positions, and more sampled words than words in the list.

        Raises:
            InputError: naming the setting.
        """
        longest = max(int(data.lengths(TEXT).max(initial=0)) for data in (train, validation))
        if longest > model.maximum_length:
            raise InputError(
                f"a sentence has {longest} tokens, which are bytes, where the model has {model.maximum_length} positions; raise "
                f"{model.length_setting}, or lower data.length"
            )
        if self.sampled >= len(self.words):
            raise InputError(
                f"data.sampled is {self.sampled} where there are {len(self.words)} words; lower it, or set 0 for all words"
            )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write tokenizer and words into `folder`; return the values for regard.json."""
        self.tokenizer.save(folder)
        self.words.save(folder)
        return {"name": self.name, "length": self.length}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> BidirectionalLanguageModellingTask:
        """The task that `save` wrote into `folder`.

        Raises:
            InputError: for a length below 1, or a tokenizer of another kind than `spelling`.
        """
        length = coerced(values.get("length", cls.__dataclass_fields__["length"].default), int, f"{folder}: length")
        check(length >= 1, f"{folder}: length", length, "at least 1", "64 is usual")
        tokenizer = Tokenizer.load(folder)
        if tokenizer.kind != "spelling":
            raise InputError(
                f"{folder}: its tokenizer is of the kind {tokenizer.kind}, and the kind spelling is needed; the files are of "
                "different models, copy the folder again"
            )
        return cls(tokenizer=tokenizer, words=WordList.load(folder), length=length)

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        return ['print(model.score("...").perplexity)', 'vectors = regard.load(".", task="sentence_embedding")']

    def _batch(self, read: Sequence[Sequence[int]], word_ids: Sequence[Sequence[int]]) -> BidirectionalBatch:
        words = Tokens.pad(word_ids)
        return BidirectionalBatch(Tokens.pad(read, padding_id=self.tokenizer.padding_id), words.ids, words.valid)


BATCH_WORDS = 2048
"""The number of words that are read in one batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BidirectionalScore:
    """The log-probabilities of the words of a sentence.

    Arguments:
        text: the sentence.
        words: its words.
        forward: log p(word | words before it), natural log, of each word and of the end mark.
        backward: log p(word | words after it), natural log, of the begin mark and of each word.
        unknown: the number of words that are not in the word list and count as the unknown word.
    """

    text: str
    words: tuple[str, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    unknown: int

    @property
    def perplexity(self) -> float:
        """The mean of the perplexities of the forward and the backward model, as in the paper."""
        return sum(math.exp(min(700.0, -math.fsum(side) / len(side))) for side in (self.forward, self.backward)) / 2


class BidirectionalLanguageModel(Predictor[BidirectionalLanguageModellingTask]):
    """A bidirectional language model ready to use: sentences in, `BidirectionalScore`s or word embeddings out.

    For text embeddings and features of words, `regard embed` and `regard vectors extract` load the same folder with the task
    `sentence_embedding`.

    Arguments:
        model: an `ELMo` with word prediction.
        task: tokenizer and words.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    def score(self, text: str) -> BidirectionalScore:
        """The log-probabilities of the words of a sentence in both directions; words are separated by white space.

        Raises:
            InputError: for a text without a word, or with more bytes than the model's positions.
        """
        return self.score_batch([text])[0]

    def score_batch(self, texts: Sequence[str], *, batch_words: int = BATCH_WORDS) -> list[BidirectionalScore]:
        """The scores of many sentences, in their order.

        Arguments:
            batch_words: the number of words in one batch. It changes memory and speed, and results only by rounding.

        Raises:
            InputError: as `score`.
        """
        sentences = self._spelt(texts)
        sides: dict[int, tuple[list[float], list[float]]] = {}
        for rows, batch in self._batches(sentences, batch_words):
            with torch.no_grad():
                forward, backward = self.model(batch.tokens, reduce=_probabilities(batch))
            for place, row in enumerate(rows):
                count = len(sentences[row].words) + 1
                check_finite(torch.stack([forward[place, :count], backward[place, :count]]), "these words")
                sides[row] = (forward[place, :count].tolist(), backward[place, :count].tolist())
        known = self.task.words.places
        return [
            BidirectionalScore(
                text=text,
                words=each.words,
                forward=tuple(sides[row][0]),
                backward=tuple(sides[row][1]),
                unknown=sum(word not in known for word in each.words),
            )
            for row, (text, each) in enumerate(zip(texts, sentences, strict=True))
        ]

    def word_states(
        self, sentences: Sequence[str | Sequence[str]], *, batch_words: int = BATCH_WORDS
    ) -> list[NDArray[np.float32]]:
        """The vectors of every word from every layer: an array (W, L + 1, D) float32 for each sentence, layer 0 first.

        Arguments:
            sentences: strings, or lists of words without white space.
            batch_words: as for `score_batch`.

        Raises:
            InputError: as `score`; for a word that is empty or contains white space.
        """
        read = self._spelt([each if isinstance(each, str) else _joined(each, n) for n, each in enumerate(sentences, 1)])
        found: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(read)
        for rows, batch in self._batches(read, batch_words):
            with torch.no_grad():
                states = torch.stack(self.model.word_states(self.model.words_of(batch.tokens)), dim=2)
            vectors = states.float().cpu().numpy()
            for place, row in enumerate(rows):
                check_finite(states[place, 1 : 1 + len(read[row].words)], "these words")
                found[row] = vectors[place, 1 : 1 + len(read[row].words)].copy()
        return found

    def tell(self, count: int) -> None:
        """Report `count` finished sentences to the observers of this thread, such as a progress bar."""
        for watcher in self._watchers():
            watcher.predicted([None] * count, [])

    def _spelt(self, texts: Sequence[str]) -> list[Spelt]:
        if isinstance(texts, str):
            raise InputError("a single string was given instead of a list of sentences; put it in a list")
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str) or not text.split():
                raise InputError(f"sentence {number} is {text!r:.60}, without a word; leave it out")
        found = list(spelt(self.task.tokenizer, texts))
        limit = self.model.maximum_length
        for number, each in enumerate(found, start=1):
            if len(each.ids) + 2 > limit:
                raise InputError(
                    f"sentence {number} has {len(each.ids) + 2:,} tokens (bytes) where the model reads {limit:,}; split it"
                )
        return found

    def _batches(self, sentences: Sequence[Spelt], size: int) -> Iterator[tuple[list[int], BidirectionalBatch]]:
        if not sentences:
            return
        lengths = np.array([[len(each.words) + 2] for each in sentences], dtype=np.int64)
        for rows in Batches(lengths, maximum_tokens=size).in_order():
            yield rows.tolist(), self.task.batch([sentences[row] for row in rows]).to(self.device)


def _probabilities(batch: BidirectionalBatch) -> Reduction:
    """A reduction from the model's output vectors to the log-probabilities of the given words, (B, W - 1) for each direction."""

    def reduce(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
        found = []
        for side, labels in enumerate((batch.words[:, 1:], batch.words[:, :-1])):
            logits = F.linear(hidden[:, side], weight, bias).float()
            found.append(logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1))
        return found

    return reduce


def _joined(words: Sequence[str], number: int) -> str:
    for word in words:
        if not isinstance(word, str) or len(word.split()) != 1:
            raise InputError(f"sentence {number}: {word!r:.40} is not a word; give strings without white space")
    return " ".join(words)


def prepare_sentences(
    data: BidirectionalTextData, folder: Path, *, seed: int, given: Any = None, given_validation: Any = None
) -> Prepared[BidirectionalLanguageModellingTask]:
    """Read the texts once for the word list and once for the tokens, and write both into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out documents.
        given, given_validation: documents in memory instead of those of `data`, in a form that `DOCUMENTS` accepts.

    Raises:
        InputError: for data that cannot be read, or too little data.
    """

    def again() -> BidirectionalLanguageModellingTask:
        task = BidirectionalLanguageModellingTask.load(folder, {"length": data.length})
        return dataclasses.replace(task, sampled=data.sampled)

    def write() -> tuple[BidirectionalLanguageModellingTask, list[str]]:
        splits = _splits(data, seed, given, given_validation)
        wikitext = data.cleaning == "wikitext"
        tokenizer = Tokenizer.train([], kind="spelling", size=SPELLING_SIZE)
        tokenizer.save(folder)
        if data.words is not None:
            words = WordList.load(located(data.words))
        else:
            learnt = spelt(tokenizer, of_documents(splits.train(), wikitext=wikitext))
            words = WordList.counted((each.words for each in learnt), size=data.vocabulary)
        words.save(folder)
        columns = {TEXT: tokenizer.size, WORDS: len(words)}
        for split, documents in ((TRAIN, splits.train()), (VALIDATION, splits.validation())):
            sentences = spelt(tokenizer, of_documents(documents, wikitext=wikitext), length=data.length)
            write_store(folder, split, columns, ((each.read(tokenizer), each.word_ids(words)) for each in sentences))
        return again(), splits.notes

    return prepare(BidirectionalLanguageModellingTask, folder, write, again=again)


def _splits(data: BidirectionalTextData, seed: int, given: Any, given_validation: Any) -> Splits[Document]:
    builtin = None
    if data.builtin is not None and given is None:
        if data.train is not None:
            raise InputError(f"data.train and data.builtin={data.builtin} are both given; choose one of the two")
        builtin = builtin_documents(TRAIN), builtin_documents(VALIDATION)
    return DOCUMENTS.splits(_as_is(data), seed, given, given_validation, builtin=builtin)


def _as_is(data: BidirectionalTextData) -> BidirectionalTextData:
    """The same settings without cleaning, to read the unchanged text of a file."""
    return dataclasses.replace(data, cleaning="none")


def read_documents_of(data: BidirectionalTextData, malformed: MalformedRows) -> Iterator[Document]:
    """The documents of the files in `data.train`, each as its sentences.

    Raises:
        InputError: if `data.train` is missing.
    """
    for document in DOCUMENTS.named(_as_is(data), malformed):
        yield list(of_documents([document], wikitext=data.cleaning == "wikitext"))


SCORED_TOGETHER = 2_000
"""The number of sentences whose scores are in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BidirectionalEvaluation(Evaluation):
    """The results of an evaluation; there are no predictions.

    Its metrics are `forward_perplexity` and `backward_perplexity`, per word; `perplexity`, their mean; `loss`, the sum of both
    mean losses, natural log; `unknown_share`, the share of words that count as the unknown word (a large share makes a model look
    better than it is).

    Arguments:
        words: the number of words in all sentences.
    """

    words: int


def evaluate_bidirectional(
    model: BidirectionalLanguageModel, documents: Any, *, batch_words: int = BATCH_WORDS
) -> BidirectionalEvaluation:
    """Predict every word of some texts in both directions, sentence by sentence, divided to the length used in training.

    Arguments:
        documents: documents in a form that `DOCUMENTS` accepts.
        batch_words: the number of words in one batch. It changes memory and speed, and results only by rounding.

    Raises:
        InputError: for an empty list, or documents without a word.
    """
    given = DOCUMENTS.to_measure(documents)
    sentences = [sentence for document in given for sentence in document]
    parts = [" ".join(each.words) for each in spelt(model.task.tokenizer, sentences, length=model.task.length)]
    if not parts:
        raise InputError("there is no word in the documents; give some text")
    forward, backward, predicted, unknown = 0.0, 0.0, 0, 0
    for some in _some(parts):
        for score in model.score_batch(some, batch_words=batch_words):
            forward, backward = forward - math.fsum(score.forward), backward - math.fsum(score.backward)
            predicted, unknown = predicted + len(score.forward), unknown + score.unknown
        model.tell(len(some))
    ahead, behind = forward / predicted, backward / predicted
    perplexities = [math.exp(min(700.0, mean)) for mean in (ahead, behind)]
    words = predicted - len(parts)
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


BIDIRECTIONAL_LANGUAGE_MODELLING = TaskSpec(
    task=BidirectionalLanguageModellingTask,
    predictor=BidirectionalLanguageModel,
    interface="bidirectional_language_model",
    sections={"data": BidirectionalTextData},
    prepare=prepare_sentences,
    examples=DOCUMENTS,
    evaluate=evaluate_bidirectional,
    read=read_documents_of,
    derived_config={"vocabulary": 1, "padding_id": 0, "words": 0, "head": "none", "outputs": 0},
)
