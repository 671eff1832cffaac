"""The common part of tasks whose model reads one sequence of tokens and generates another: loss, search, data, metrics."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis, StopRule, search
from regard.generation.penalties import check_coverage
from regard.layers import Tokens
from regard.metrics.answers import exact_match, rouge_scores, token_f1
from regard.parts import own_scores
from regard.tasks.examples import Splits
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.predictor import Observers, Predictor
from regard.tasks.task import LossSum, Task, TensorBatch
from regard.text import Tokenizer

COLUMNS = ("source", "target")
"""The columns of the token stores."""


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        source: (B, S), with the end token at the end; also with the start token at the start if the task `surrounds` texts.
        target: (B, L), shifted right, with the start token first; with the end and the start token if the task `surrounds` texts.
        labels: (B, L) int64, the token to predict at each target position, the end token last.
    """

    source: Tokens
    target: Tokens
    labels: Tensor


class PairTask(Task):
    """Turns pairs of sequences into an encoder-decoder's tensors, and its outputs into a loss."""

    @property
    @abstractmethod
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target; the same object if they share one vocabulary."""

    @property
    @abstractmethod
    def usual(self) -> GenerationSettings:
        """The default decoding settings."""

    @property
    def surrounds(self) -> bool:
        """Whether sources and targets have both a start and an end token, as for BART.

        The decoder's first token is then the end token: its input is `</s> <s> y`, and its output `<s> y </s>`.
        """
        return False

    @property
    def start_id(self) -> int:
        """The first token that the decoder reads."""
        target = self.sides[1]
        return target.end_id if self.surrounds else target.start_id

    def whole(self, ids: Sequence[int], side: int = 0) -> list[int]:
        """The ids of a text with its end token, and with a start token if the task `surrounds` texts.

        Arguments:
            side: 0 for a source, 1 for a target.
        """
        tokenizer = self.sides[side]
        return [*([tokenizer.start_id] if self.surrounds else []), *ids, tokenizer.end_id]

    @property
    def around(self) -> int:
        """The number of tokens that are added to a text: 2 with a start token, else 1."""
        return 2 if self.surrounds else 1

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizers of source and target, or the one they share."""
        source, target = self.sides
        return {"shared": source} if source == target else {"source": source, "target": target}

    def model_settings(self) -> dict[str, int]:
        """The settings of a model's config that follow from the vocabularies."""
        source, target = self.sides
        return {
            "source_vocabulary": source.size,
            "target_vocabulary": target.size,
            "padding_id": target.padding_id,
            "start_id": self.start_id,
            "end_id": target.end_id,
        }

    def read(self, sources: Sequence[Sequence[int]]) -> Tokens:
        """The model's input for source token ids: each `whole`, with padding."""
        return Tokens.pad([self.whole(ids) for ids in sources], padding_id=self.sides[0].padding_id)

    def batch(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch:
        """A batch for training of pairs of token ids."""
        tokenizer = self.sides[1]
        labels = [self.whole(ids, 1) for ids in targets]
        inputs = [[self.start_id, *ids[:-1]] for ids in labels]
        return PairBatch(
            source=self.read(sources),
            target=Tokens.pad(inputs, padding_id=tokenizer.padding_id),
            labels=Tokens.pad(labels, padding_id=tokenizer.padding_id).ids,
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of tokens of source and target, start and end tokens included, (N, 2)."""
        return np.stack([data.lengths(column) + self.around for column in COLUMNS], axis=1)

    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of target tokens of each pair, end tokens included, (N,)."""
        return self.lengths(data)[:, 1]

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> PairBatch:
        """The pairs of these rows as a batch."""
        sources, targets = ([data.sequence(column, int(row)).tolist() for row in rows] for column in COLUMNS)
        return self.batch(sources, targets)

    def loss(self, model: nn.Module, batch: PairBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the labels, summed over real tokens; the padding token gets no smoothing mass."""
        labels, real, tokenizer = batch.labels.flatten(), batch.target.valid.flatten(), self.sides[1]
        own = getattr(model, "module", model)  # DDP's is within
        if batch.target.padding_side != "nowhere" and getattr(own, "takes_positions", False):
            at = real.nonzero().squeeze(1)
            logits, labels, real = model(batch.source, batch.target, at=at), labels[at], real[at]
        else:
            logits = model(batch.source, batch.target)
        total, correct = smoothed_cross_entropy(
            logits.flatten(0, -2),
            labels,
            valid=real,
            smoothing=smoothing,
            never=tokenizer.padding_id if tokenizer.padding_id != tokenizer.end_id else None,
        )
        return LossSum(total, int(real.sum()), correct)

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse sequences longer than the model's positions, and a coverage penalty for a model without attention.

        Raises:
            InputError: naming what is too long, and what to do.
        """
        limits = {"source": model.maximum_source_length, "target": model.maximum_target_length}
        for name, store in (("training", train), ("validation", validation)):
            longest = self.lengths(store).max(axis=0, initial=0)
            for length, (column, limit) in zip(longest.tolist(), limits.items(), strict=True):
                if limit is not None and length > limit:
                    raise InputError(
                        f"the longest {name} {column} has {length} tokens where the model has {limit} positions; "
                        f"raise {model.length_setting}, or {self.shorter(name, limit)}"
                    )
        if self.usual.coverage_penalty > 0:
            check_coverage(model)

    @abstractmethod
    def shorter(self, split: str, limit: int) -> str:
        """How to limit examples to `limit` tokens, as the end of a sentence.

        Arguments:
            split: `training` or `validation`.
        """


P = TypeVar("P", bound=PairTask)
R = TypeVar("R")


class PairPredictor(Predictor[P]):
    """An encoder-decoder ready to use: it encodes texts, searches in batches, and converts hypotheses to results.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: tokenizers and settings.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    @abstractmethod
    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids that the model reads for a text, without the end token.

        Arguments:
            to: the target language or part, for a model with several.

        Raises:
            InputError: for a text, language or part that the model does not support.
        """

    def encode_target(self, text: str) -> list[int]:
        """The token ids of a target text, without the end token."""
        return self.task.sides[1].encode(text)

    @property
    def usual(self) -> GenerationSettings:
        """The default decoding settings."""
        return self.task.usual

    def with_generation(self, settings: GenerationSettings) -> Self:
        """The same model with other default decoding settings."""
        task = replace(self.task, generation=settings)  # type: ignore[type-var]  # every `PairTask` is a dataclass
        return type(self)(self.model, task, recipe=self.recipe, metrics=self.metrics)

    @property
    @abstractmethod
    def never(self) -> tuple[int, ...]:
        """The ids that are never generated."""

    def searched(
        self,
        sources: Sequence[Sequence[int]],
        settings: GenerationSettings,
        make: Callable[[int, Sequence[Hypothesis]], R],
        *,
        batch_size: int = 64,
        stop: Sequence[StopRule] = (),
    ) -> list[R]:
        """The results for sources, in their order; they are decoded in batches of similar length.

        Arguments:
            sources: token ids, without start and end tokens.
            settings: how to decode.
            make: makes a result from the number of a source and its hypotheses.
            batch_size: the number of sources decoded together. It changes memory and speed, and sampled results.
            stop: rules that end a hypothesis; see `regard.generation.search`.

        Raises:
            InputError: as `regard.generation.search`.
        """
        config = self.model.config
        # The model's table may have more rows than there are tokens, as for T5.
        forbid = (*self.never, *range(self.task.sides[1].size, config.target_vocabulary))
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        answers: dict[int, R] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            source = self.task.read([sources[i] for i in rows]).to(self.device)
            watchers = self._watchers()
            observer = Observers(watchers) if watchers else None
            # An end token at the start of a target counts as generated for repetition penalties, as in `transformers`.
            before = Tokens.pad([[config.start_id]] * len(rows)).to(self.device) if self.task.surrounds else None
            found = search(self.model, source, settings, observer=observer, forbid=forbid, stop=stop, before=before)
            made = [make(i, hypotheses) for i, hypotheses in zip(rows, found, strict=True)]
            for watcher in watchers:
                watcher.predicted(made, found)
            answers.update(zip(rows, made, strict=True))
        return [answers[i] for i in range(len(sources))]

    def refuse_too_long(self, sources: Sequence[Sequence[int]]) -> None:
        """Refuse sources longer than the model's positions.

        Raises:
            InputError: naming the first one by its number, from 1.
        """
        limit = self.model.maximum_source_length
        for number, ids in enumerate(sources, start=1):
            length = len(ids) + self.task.around
            if limit is not None and length > limit:
                raise InputError(
                    f"text {number} has {length} tokens and the model has positions for {limit}; shorten it, or train with "
                    f"a larger {self.model.length_setting}"
                )


def written_tokens(task: PairTask, found: Hypothesis) -> tuple[str, ...]:
    """The tokens of a hypothesis as strings, including the end token if there is one."""
    tokenizer = task.sides[1]
    end = [tokenizer.end_id] if found.length > len(found.tokens) else []
    return tuple(tokenizer.tokens([*found.tokens, *end]))


E = TypeVar("E")


@dataclass(kw_only=True, slots=True, eq=False)
class PairPart(Generic[E]):
    """The examples of one language of a translator, or of one part of a mixture.

    Arguments:
        name: the name of its section in the recipe, such as `data.targets.de`; `data` if it is the only one.
        data: its section.
        splits: its examples.
        kept: the number of training examples.
        dropped: the number of examples that are left out, because they are too long.
        cut: the number of examples with a truncated source.
    """

    name: str
    data: Any
    splits: Splits[E]
    kept: int = 0
    dropped: int = 0
    cut: int = 0

    def notes(self, *own: str) -> list[str]:
        """Messages for the user about the data that was read, and those in `own`, each with the name of the part."""
        place = "" if self.name == "data" else f"{self.name}: "
        return [place + note for note in (*self.splits.notes, *own)]


def in_chunks(examples: Iterable[E], size: int = 1024) -> Iterator[list[E]]:
    """Examples in lists of `size`; the last one may be shorter.

    >>> list(in_chunks(range(5), 2))
    [[0, 1], [2, 3], [4]]
    """
    iterator = iter(examples)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


# Metrics of generated texts.

Scores = tuple[dict[str, float], dict[str, str], str]
"""Metrics by name, sacreBLEU's signatures, and a note on what could not be computed."""


def bleu_and_chrf(texts: Sequence[str], references: Sequence[Sequence[str | None]]) -> Scores:
    """BLEU and chrF of a corpus, computed by sacreBLEU; without sacrebleu no metrics, and a note.

    Arguments:
        references: the list of first references of all texts, then the list of second references, and so on; None for a text with
            fewer.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF  # type: ignore[attr-defined]
    except ImportError:
        return {}, {}, "BLEU and chrF need sacrebleu: pip install 'regard[eval]'"
    metrics, signatures = dict[str, float](), dict[str, str]()
    # `force`: otherwise sacreBLEU warns at each validation about texts that look tokenised.
    for name, metric in (("bleu", BLEU(tokenize="13a", force=True)), ("chrf", CHRF())):
        metrics[name] = metric.corpus_score(list(texts), references).score  # type: ignore[arg-type]
        signatures[name] = str(metric.get_signature())
    return metrics, signatures, ""


def compared(texts: Sequence[str], references: Sequence[str], tokenizer: Tokenizer) -> Scores:
    """Metrics of texts against one reference each.

    Arguments:
        tokenizer: the tokenizer of the references, for `position_accuracy`.
    """
    same, places = 0, 0
    for text, reference in zip(tokenizer.encode_batch(texts), tokenizer.encode_batch(references), strict=True):
        same += sum(map(int.__eq__, text, reference))
        places += max(len(text), len(reference))
    metrics = {
        "exact_match": sum(map(str.__eq__, texts, references)) / len(texts),
        "position_accuracy": same / max(1, places),
    }
    found, signatures, note = bleu_and_chrf(texts, [references])
    if found and 2 * sum(text.endswith(" .") for text in texts) > len(texts):
        note = "most texts end in a space and a full stop, so they look tokenised; their BLEU differs from that of plain text"
    words = sum(len(text.split()) for text in texts)
    metrics |= found
    metrics["length_ratio"] = words / max(1, sum(len(text.split()) for text in references))
    return metrics | own_scores("translation", texts, references), signatures, note


def measured(texts: Sequence[str], references: Sequence[Sequence[str]], tokenizer: Tokenizer) -> Scores:
    """Metrics of texts against one or more references each.

    Arguments:
        references: the references of each text, at least one. BLEU, chrF, position accuracy and length ratio use only the first.
        tokenizer: the tokenizer of the references.

    Returns:
        `exact_match`, the share of texts that equal one of their references; `normalized_match` and `f1`, exact match and word
        overlap after the normalisation of SQuAD's script; `bleu`, `chrf`, `position_accuracy` and `length_ratio` as for
        translation; `rouge1`, `rouge2` and `rougeL`.
    """
    metrics, signatures, note = compared(texts, [right[0] for right in references], tokenizer)
    pairs = list(zip(texts, references, strict=True))
    metrics["exact_match"] = sum(text in right for text, right in pairs) / len(pairs)
    metrics["normalized_match"] = sum(exact_match(right, text) for text, right in pairs) / len(pairs)
    metrics["f1"] = sum(token_f1(right, text) for text, right in pairs) / len(pairs)
    try:
        metrics |= rouge_scores(texts, references)
    except ImportError:
        note = "; ".join(filter(None, [note, "ROUGE needs rouge-score: pip install 'regard[eval]'"]))
    return metrics, signatures, note
