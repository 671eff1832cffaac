"""Masked language modelling and next-sentence prediction, BERT's pre-training (Devlin et al. 2019)."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batching import Batches
from regard.data.malformed import MalformedRows
from regard.data.pretraining import Cutting, Masking, write_documents
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import FIXED_OUTPUTS, HeadKind, Tokens
from regard.tasks.distillation import Teacher
from regard.tasks.documents import DOCUMENTS, DocumentReaders, encoded_documents, texts_of
from regard.tasks.encoders import (
    BATCH_TOKENS,
    TEXT,
    EncoderPredictor,
    EncoderTask,
    Joined,
    encoded_by,
    join,
    padded,
    read_inputs,
    tokenizer_from_hf,
)
from regard.tasks.losses import smoothed_cross_entropy, stands_out, summed_losses
from regard.tasks.mask_filling import Filled, PseudoScore, filled, ids_of_targets, mask_of, read_masked
from regard.tasks.masked_language_data import (
    DOCUMENTS_FOLDER,
    FOLLOWED,
    NEXT,
    ORDINARY,
    MaskedTextData,
    cut_documents,
    held_out_documents,
    tokenizer_of,
    write_inputs,
)
from regard.tasks.predictor import Evaluation, refuse_empty
from regard.tasks.preparation import TRAIN, VALIDATION, EncoderTokenizerSettings, Prepared, prepare
from regard.tasks.spec import TaskSpec, encoder_config
from regard.tasks.task import LossSum, TensorBatch
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class MaskedBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        tokens: (B, L), some of them masked.
        segments: (B, L) int64, 1 from the second text on.
        at: (M,) int64, the positions to predict, as indices into B x L.
        labels: (M,) int64, the original tokens at these positions.
        next: (B,) int64, `FOLLOWED` or `OTHER`; None without next-sentence prediction.
        taught: whether the teacher's loss is computed, as in training.
    """

    tokens: Tokens
    segments: Tensor
    at: Tensor
    labels: Tensor
    next: Tensor | None = None
    taught: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedLanguageModellingTask(EncoderTask):
    """Masks tokens of texts and turns an encoder's outputs into losses (Devlin et al. 2019, section 3.1).

        loss = mean over chosen tokens of -log p(token) + mean over pairs of -log p(whether the second text followed)

    Both means are over all batches of an update, on all workers.

    Arguments:
        tokenizer: for all texts; it has a mask token.
        maximum_length: the maximum number of tokens of one input, special ones included.
        next_sentence: whether the model also predicts if one text followed another.
        masking: how tokens are masked.
        teacher: a model to distil from as well; not saved.
    """

    name: ClassVar[str] = "masked_language_modelling"
    unit: ClassVar[str] = "tokens"
    head: ClassVar[HeadKind] = "pretraining"

    next_sentence: bool = True
    masking: Masking = field(default_factory=Masking)
    teacher: Teacher | None = field(default=None, repr=False, compare=False)

    @property
    def use(self) -> tuple[str, ...]:
        """Lines for the model card."""
        follows = ('print(model.follows("...", "..."))',) if self.next_sentence else ()
        return (f'print(model.fill("... {mask_of(self.tokenizer)} ...").best)', *follows)

    @property
    def kind(self) -> HeadKind:
        """The head of a model for this task."""
        return "pretraining" if self.next_sentence else "masked"

    def model_settings(self) -> dict[str, Any]:
        """The settings of a model's config that the task sets."""
        return {
            "vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "head": self.kind,
            "outputs": FIXED_OUTPUTS[self.kind],
        }

    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of tokens of each input to predict, (N,); with whole-word masking, the target of this number."""
        return self.masking.counts(data.lengths(TEXT), data.numbers(ORDINARY))

    def auxiliary_labels(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """The number of labels of the auxiliary losses: one for each pair; with a teacher, the tokens that it predicts."""
        if self.teacher is not None:
            counts = {"divergence": self.labels(data) if self.teacher.settings.at_masked else data.lengths(TEXT)}
            return counts | ({"cosine": data.lengths(TEXT)} if self.teacher.settings.cosine_weight else {})
        return {"next_sentence": np.ones(len(data), dtype=np.int64)} if self.next_sentence else {}

    def batch(
        self,
        inputs: Sequence[Joined],
        rows: Sequence[int],
        *,
        nexts: Sequence[int] | None = None,
        draw: int | None = None,
    ) -> MaskedBatch:
        """Make a batch of inputs, with some of their tokens masked.

        Arguments:
            rows: a number for each input, which determines the masked tokens.
            nexts: `FOLLOWED` or `OTHER` for each input.
            draw: as for `training_batch`; None in evaluation.
        """
        texts = [np.asarray(joined.ids, dtype=np.int64) for joined in inputs]
        hidden = self.masking.hide(self.tokenizer, texts, rows, draw=draw)
        tokens, segments = padded(
            [Joined(ids.tolist(), joined.second) for ids, joined in zip(hidden.texts, inputs, strict=True)],
            padding_id=self.tokenizer.padding_id,
        )
        width = tokens.ids.shape[1]
        at = np.concatenate([places + row * width for row, places in enumerate(hidden.places)])
        labels = np.concatenate([text[places] for text, places in zip(texts, hidden.places, strict=True)])
        return MaskedBatch(
            tokens,
            segments,
            torch.from_numpy(at),
            torch.from_numpy(labels),
            None if nexts is None else torch.tensor(nexts, dtype=torch.int64),
            taught=draw is not None and self.teacher is not None,
        )

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> MaskedBatch:
        """The inputs of these rows as a batch; the same tokens are masked at every call."""
        return self._read(data, rows, None)

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> MaskedBatch:
        """The inputs of these rows as a batch; the masked tokens are a function of the masking's seed, `draw` and the row."""
        return self._read(data, rows, draw)

    def _read(self, data: TokenStore, rows: Sequence[int], draw: int | None) -> MaskedBatch:
        nexts = [int(data.sequence(NEXT, row)[0]) for row in rows] if self.next_sentence else None
        return self.batch(read_inputs(data, rows), rows, nexts=nexts, draw=draw)

    def loss(self, model: nn.Module, batch: MaskedBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the chosen tokens, summed; with that of next sentences or of the teacher as auxiliary losses."""
        if batch.taught and self.teacher is not None:
            return self.teacher.loss(model, batch, smoothing=smoothing)
        encoded = encoded_by(model, batch.tokens, batch.segments, at=batch.at)
        total, correct = smoothed_cross_entropy(encoded.logits, batch.labels, smoothing=smoothing)
        auxiliary = {}
        if batch.next is not None:
            logits = encoded.next_sentence.float()
            right = (logits.argmax(dim=-1) == batch.next).sum()
            auxiliary["next_sentence"] = LossSum(
                F.cross_entropy(logits, batch.next, reduction="sum"), len(batch.next), right
            )
        return LossSum(total, len(batch.labels), correct, auxiliary)

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse inputs longer than the model's positions, and a student that cannot learn from its teacher.

        Raises:
            InputError: naming the settings.
        """
        EncoderTask.check(self, model, train, validation)
        if self.teacher is not None:
            self.teacher.check(model, self.maximum_length)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """Loss, perplexity and accuracy on the chosen tokens."""
        perplexity = math.exp(min(50.0, loss))
        return {"loss": loss, "masked_loss": loss, "perplexity": perplexity, "masked_accuracy": right}

    def auxiliary_metrics(self, name: str, loss: float, right: float) -> dict[str, float]:
        """Loss and accuracy of next-sentence prediction; with a teacher its loss."""
        found = {f"{name}_loss": loss}
        return found | {f"{name}_accuracy": right} if name == "next_sentence" else found

    def settings(self) -> dict[str, Any]:
        """All that prediction and evaluation need besides the tokenizer."""
        return {
            "maximum_length": self.maximum_length,
            "next_sentence": self.next_sentence,
            "masking": asdict(self.masking),
        }

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of inputs and tokens and the size of the vocabulary, as one line."""
        tokens, masked = int(train.lengths(TEXT).sum()), int(self.labels(train).sum())
        return (
            f"{len(train):,} inputs to learn from ({tokens:,} tokens, {masked:,} of them masked, in an epoch), "
            f"{len(validation):,} to validate on; a vocabulary of {self.tokenizer.size:,}"
        )


SCORED_TOGETHER = 64
"""Number of texts whose copies, one for each token, are held in memory together."""


class MaskedLanguageModel(EncoderPredictor[MaskedLanguageModellingTask]):
    """A masked language model ready to use: it fills gaps, scores texts, and may predict if one text follows another.

    Arguments:
        model: a `TextEncoder` with a head over the vocabulary.
        task: the tokenizer.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    validates_all = False

    def fill(self, text: str, top: int = 5, *, targets: Sequence[str] | None = None) -> Filled:
        """The most probable tokens at each mask of a text, such as "Paris is the [MASK] of France.".

        Arguments:
            top: the number of candidates for each mask.
            targets: the only words that can be candidates, each one token of the vocabulary; None = the whole vocabulary.

        Raises:
            InputError: for a text without a mask, or one that is too long; for a target that is not one token.
        """
        return self.fill_batch([text], top, targets=targets)[0]

    def fill_batch(
        self,
        texts: Sequence[str],
        top: int = 5,
        *,
        targets: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[Filled]:
        """The candidates at the masks of many texts, in the order of the texts.

        Arguments:
            top: the number of candidates for each mask.
            targets: as in `fill`. Their probabilities are still those of the softmax over the whole vocabulary.
            batch_tokens: the number of tokens in one batch. It changes memory and speed, and results only by rounding.

        Raises:
            InputError: as `fill`.
        """
        if top < 1:
            raise InputError(f"top is {top}; give at least 1")
        inputs = read_masked(self.task.tokenizer, texts, maximum=self.maximum_length)
        # The model's table may have more rows than there are tokens.
        among = (
            torch.arange(self.task.tokenizer.size)
            if targets is None
            else torch.tensor(ids_of_targets(self.task.tokenizer, targets))
        )
        among = among.to(self.device)
        found: dict[int, Filled] = {}
        for rows, tokens, encoded in self.encoded(inputs, batch_tokens=batch_tokens, at=self._masks):
            probabilities = _wide(encoded.logits).softmax(dim=-1)[:, among]
            best = probabilities.topk(min(top, len(among)), dim=-1)
            candidates = iter(zip(among[best.indices].tolist(), best.values.tolist(), strict=True))
            counts = (tokens.ids == self.task.tokenizer.mask_id).sum(dim=1).tolist()
            made = [
                filled(self.task.tokenizer, texts[row], [next(candidates) for _ in range(count)])
                for row, count in zip(rows, counts, strict=True)
            ]
            self.tell(made)
            found.update(zip(rows, made, strict=True))
        return [found[row] for row in range(len(texts))]

    def follows(self, first: str, second: str) -> float:
        """The probability that the second text followed the first.

        Raises:
            InputError: if the model has no next-sentence head, or a text is empty.
        """
        return self.follows_batch([(first, second)])[0]

    def follows_batch(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probabilities for many pairs, as `follows`.

        Raises:
            InputError: as `follows`.
        """
        if not self.task.next_sentence:
            raise InputError(
                "the model was not trained to predict whether one text follows another; use one trained with "
                "data.next_sentence=true"
            )
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        refuse_empty(firsts, "first text")
        refuse_empty(seconds, "second text")
        encode = self.task.tokenizer.encode_batch
        inputs = [
            join(self.task.tokenizer, one, other, maximum=self.maximum_length)
            for one, other in zip(encode(firsts), encode(seconds), strict=True)
        ]
        found = [0.0] * len(inputs)
        for rows, _, encoded in self.encoded(inputs, at=_nowhere):
            probabilities = _wide(encoded.next_sentence).softmax(dim=-1)[:, FOLLOWED].tolist()
            for row, probability in zip(rows, probabilities, strict=True):
                found[row] = probability
        return found

    def score(self, text: str) -> PseudoScore:
        """The log-probability of each token given all others; the model reads the text once for every token.

        Raises:
            InputError: for an empty text, or one that is too long.
        """
        return self.score_batch([text])[0]

    def score_batch(self, texts: Sequence[str], *, batch_tokens: int = BATCH_TOKENS) -> list[PseudoScore]:
        """The scores of many texts, in the order of the texts.

        Arguments:
            batch_tokens: the number of tokens in one batch. It changes memory and speed, and results only by rounding.

        Raises:
            InputError: as `score`.
        """
        refuse_empty(texts)
        tokenizer = self.task.tokenizer
        mask_of(tokenizer)
        encoded = tokenizer.encode_batch(list(texts))
        for number, ids in enumerate(encoded, start=1):
            if not 1 <= len(ids) <= self.maximum_length - 2:
                raise InputError(
                    f"text {number} has {len(ids)} tokens and the model scores 1 to {self.maximum_length - 2}; shorten it"
                    if ids
                    else f"text {number} ({texts[number - 1]!r:.60}) has no token that the model knows; leave it out"
                )
        made: list[PseudoScore] = []
        for start in range(0, len(texts), SCORED_TOGETHER):
            group = encoded[start : start + SCORED_TOGETHER]
            guesses = iter(self._guesses(group, batch_tokens))
            for text, ids in zip(texts[start:], group, strict=False):
                logs, right = zip(*[next(guesses) for _ in ids], strict=True)
                made.append(
                    PseudoScore(text=text, tokens=tuple(tokenizer.tokens(ids)), log_probabilities=logs, right=right)
                )
            self.tell(made[start:])
        return made

    def _guesses(self, texts: Sequence[Sequence[int]], batch_tokens: int) -> list[tuple[float, bool]]:
        """The log-probability of each token of each text when only this token is masked, and whether it was the most probable."""
        tokenizer = self.task.tokenizer
        start, end, mask = tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id or 0
        inputs = [Joined([start, *ids[:i], mask, *ids[i + 1 :], end]) for ids in texts for i in range(len(ids))]
        right = torch.tensor([index for ids in texts for index in ids], device=self.device)
        found: list[tuple[float, bool]] = [(0.0, False)] * len(inputs)
        for rows, _, encoded in self.encoded(inputs, batch_tokens=batch_tokens, at=self._masks):
            logits = _wide(encoded.logits)
            chosen = logits.gather(1, right[rows].unsqueeze(1)).squeeze(1)
            logs, best = (chosen - logits.logsumexp(dim=1)).tolist(), stands_out(logits, right[rows]).tolist()
            for row, guess in zip(rows, zip(logs, best, strict=True), strict=True):
                found[row] = guess
        return found

    def _masks(self, tokens: Tokens) -> Tensor:
        """The positions of the masks of a batch, as indices into B x L."""
        return (tokens.ids == self.task.tokenizer.mask_id).flatten().nonzero().squeeze(1)


def _nowhere(tokens: Tokens) -> Tensor:
    """No position of a batch, for predictions about the whole text."""
    return torch.zeros(0, dtype=torch.int64, device=tokens.ids.device)


def _wide(logits: Tensor | None) -> Tensor:
    """Logits in at least float32."""
    if logits is None:
        raise RuntimeError("the model has no such head")
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def prepare_masked(
    data: MaskedTextData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[MaskedLanguageModellingTask]:
    """Read the texts once for the tokenizer and once for the tokens, cut these into inputs, and write both into `folder`.

    Texts can be larger than memory: documents are read, and inputs written, one after another. In memory are the counts of the
    tokenizer while it is trained, some tens of bytes for each document, and a few documents at a time.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: for the choice of held-out documents, the cutting of inputs, and the choice of masked tokens.
        given, given_validation: documents in memory instead of those of `data`, in a form that `DOCUMENTS` accepts.

    Raises:
        InputError: for data that cannot be read, too little data, or a tokenizer without a mask token.
    """
    teacher = Teacher.read(data.teacher) if data.teacher is not None else None

    def again() -> MaskedLanguageModellingTask:
        return MaskedLanguageModellingTask(
            tokenizer=Tokenizer.load(folder),
            maximum_length=data.maximum_length,
            next_sentence=data.next_sentence,
            masking=data.hiding(seed),
            teacher=teacher,
        )

    def write() -> tuple[MaskedLanguageModellingTask, list[str]]:
        shutil.rmtree(folder / DOCUMENTS_FOLDER, ignore_errors=True)
        readers = DocumentReaders.of(data, given, given_validation)
        train = [each for each in (readers.train, readers.builtin_train) if each is not None]
        validation = [each for each in (readers.validation, readers.builtin_validation) if each is not None]
        malformed = MalformedRows()
        if not any(document for part in train for document in part(malformed)):
            left_out = f" ({malformed.summary()})" if malformed.total else ""
            raise InputError(f"there is no training text{left_out}; give some")
        found = tokenizer_of(
            data, tokenizer, lambda: texts_of(document for part in train for document in part(malformed))
        )
        found.save(folder)
        parts = [*train, *validation]
        counts = [0] * len(parts)

        def documents() -> Iterator[list[list[int]]]:
            for number, part in enumerate(parts):
                for document in encoded_documents(part(malformed), found, unknown=data.cleaning == "wikitext"):
                    if any(document):
                        counts[number] += 1
                        yield document

        store = write_documents(folder / DOCUMENTS_FOLDER, documents(), vocabulary=found.size)
        rows, learnt = np.arange(len(store)), sum(counts[: len(train)])
        hold = readers.train is not None and readers.validation is None
        held_out = held_out_documents(counts[0], data, seed) if hold else rows[:0]
        splits = {TRAIN: np.setdiff1d(rows[:learnt], held_out), VALIDATION: np.concatenate([held_out, rows[learnt:]])}
        notes = [cut_documents(folder, split, store, chosen, data, found, seed) for split, chosen in splits.items()]
        shutil.rmtree(folder / DOCUMENTS_FOLDER)
        return again(), malformed.notes + notes

    return prepare(MaskedLanguageModellingTask, folder, write, again=again)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedEvaluation(Evaluation):
    """The results of an evaluation on `count` inputs that were cut from documents; there are no predictions.

    Its metrics are, for the chosen tokens, `masked_loss`, the mean of -log p (natural log), `perplexity`, its exp, and
    `masked_accuracy`; for pairs `next_sentence_loss` and `next_sentence_accuracy`; and `loss`, the sum of both losses.

    Arguments:
        documents: the number of documents.
        hidden: the number of tokens that were masked and predicted.
        note: a remark about the metrics; may be empty.
    """

    documents: int
    hidden: int
    note: str = ""


def evaluate_masked(
    model: MaskedLanguageModel, documents: Any, *, seed: int = 0, batch_tokens: int = BATCH_TOKENS
) -> MaskedEvaluation:
    """Mask tokens of documents and compare a model's predictions with the original tokens, as a run does in validation.

    Documents are cut into inputs (pairs if the model predicts next sentences), and tokens are masked as in its training. The
    same seed gives the same inputs and masks the same tokens for all models with the same tokenizer.

    Arguments:
        documents: documents in a form that `DOCUMENTS` accepts.
        seed: the seed of all random choices.
        batch_tokens: the number of tokens in one batch. It changes memory and speed, and results only by rounding.

    Raises:
        InputError: for an empty list, or documents without text.
    """
    given = DOCUMENTS.to_measure(documents)
    task = model.task
    unknown = (model.recipe.get("data") or {}).get("cleaning") == "wikitext"
    with TemporaryDirectory() as folder:
        written = encoded_documents(given, task.tokenizer, unknown=unknown)
        store = write_documents(Path(folder) / "documents", written, vocabulary=task.tokenizer.size)
        if len(store) < 2:
            task = replace(task, next_sentence=False)
        room = model.maximum_length - 2 - (len(task.tokenizer.separators) if task.next_sentence else 0)
        cutting = Cutting(documents=store, rows=np.arange(len(store)), room=room, seed=seed)
        inputs = cutting.pairs() if task.next_sentence else cutting.stretches()
        write_inputs(Path(folder), "inputs", task.tokenizer, inputs, next_sentence=task.next_sentence)
        data = TokenStore.open(Path(folder) / "inputs")

        def batches() -> Iterator[MaskedBatch]:
            for rows in Batches(task.lengths(data), maximum_tokens=batch_tokens).in_order():
                yield task.read_batch(data, rows.tolist()).to(model.device)
                model.tell([None] * len(rows))

        sums = summed_losses(task.loss, model.model, batches(), "these texts")
    own, further = sums[""], {name: one for name, one in sums.items() if name}
    metrics = task.metrics_of(own[0] / own[1], own[2] / own[1])
    for name, (total, labels, right) in further.items():
        metrics["loss"] += total / labels
        metrics |= task.auxiliary_metrics(name, total / labels, right / labels)
    alone = task.next_sentence != model.task.next_sentence
    note = "One document gives no pairs, so next-sentence prediction was not measured." if alone else ""
    return MaskedEvaluation(metrics=metrics, count=len(data), documents=len(store), hidden=int(own[1]), note=note)


def masked_from_hf(folder: Path, config: Any) -> MaskedLanguageModellingTask:
    """The task of a folder with a masked language model; it predicts next sentences if the model has the head for it.

    Raises:
        InputError: if there is no tokenizer.
    """
    return MaskedLanguageModellingTask(
        tokenizer=tokenizer_from_hf(folder, config),
        maximum_length=config.maximum_positions,
        next_sentence=config.head == "pretraining",
    )


MASKED_LANGUAGE_MODELLING = TaskSpec(
    task=MaskedLanguageModellingTask,
    predictor=MaskedLanguageModel,
    interface="encoder",
    sections={"data": MaskedTextData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_masked,
    evaluate=evaluate_masked,
    examples=DOCUMENTS,
    derived_config=encoder_config("masked", 0),
    from_hf=masked_from_hf,
)
