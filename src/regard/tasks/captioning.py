"""Captions of images (Xu et al. 2015)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.scenes import Named
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis, search
from regard.generation.penalties import check_coverage
from regard.layers import Images, Tokens
from regard.models.captioning import Captioned, ImageDecoder
from regard.structure import from_mapping
from regard.tasks.caption_data import (
    CAPTIONS,
    TARGET,
    CaptionData,
    CaptionExample,
    CaptionStore,
    Objective,
    in_tokens,
    uncovered,
)
from regard.tasks.caption_preparation import find_captions, size_of, write_captions
from regard.tasks.images import ImageInput, ImageSize, frames_of
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.pairs import bleu_and_chrf
from regard.tasks.predictor import Evaluation, Observers, Predictor
from regard.tasks.preparation import Prepared, TokenizerSettings, prepare
from regard.tasks.spec import TaskSpec
from regard.tasks.task import LossSum, Task, TensorBatch
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class CaptionBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        images: B images.
        target: (B, L), shifted right: the start token first.
        labels: (B, L) int64, the token each target position has to predict, the end token last.
    """

    images: Images
    target: Tokens
    labels: Tensor


@dataclass(frozen=True, slots=True)
class CaptioningTask(Task):
    """Turns images and captions into a captioner's tensors, and its outputs into a loss and captions.

    Arguments:
        tokenizer: for captions.
        size: the size of images.
        generation: the default decoding settings.
        objective: additional loss terms.
    """

    name: ClassVar[str] = "captioning"

    tokenizer: Tokenizer
    size: ImageSize
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    objective: Objective = field(default_factory=Objective)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of the captions."""
        return {"target": self.tokenizer}

    def model_settings(self) -> dict[str, Any]:
        """The sizes of vocabulary and images."""
        return {
            "target_vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "start_id": self.tokenizer.start_id,
            "end_id": self.tokenizer.end_id,
            "image_height": self.size.height,
            "image_width": self.size.width,
            "image_channels": self.size.channels,
            "frames": self.size.frames,
        }

    def batch(self, images: Sequence[np.ndarray], captions: Sequence[Sequence[int]]) -> CaptionBatch:
        """Make a batch for training of images (F, Y, X, C) uint8 of the task's size and the token ids of their captions."""
        tokenizer = self.tokenizer
        inputs = [[tokenizer.start_id, *ids] for ids in captions]
        labels = [[*ids, tokenizer.end_id] for ids in captions]
        return CaptionBatch(
            images=Images.of(images),
            target=Tokens.pad(inputs, padding_id=tokenizer.padding_id),
            labels=Tokens.pad(labels, padding_id=tokenizer.padding_id).ids,
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of tokens of each caption, end token included, (N, 1); an image has none."""
        return data.lengths(TARGET)[:, None] + 1

    def labels(self, data: TokenStore) -> np.ndarray:
        """The same, (N,)."""
        return self.lengths(data)[:, 0]

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> CaptionBatch:
        """The captions of these rows, with their images, as a batch."""
        store = cast(CaptionStore, data)
        captions = [store.sequence(TARGET, int(row)).tolist() for row in rows]
        return self.batch([store.image(int(row)) for row in rows], captions)

    def loss(self, model: nn.Module, batch: CaptionBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the labels, summed over real tokens; in training with the further terms of the objective."""
        output: Captioned = model(batch.images, batch.target, attended=model.training)
        real = batch.target.valid
        tokenizer = self.tokenizer
        total, correct = smoothed_cross_entropy(
            output.logits.flatten(0, 1),
            batch.labels.flatten(),
            valid=real.flatten(),
            smoothing=smoothing,
            never=tokenizer.padding_id if tokenizer.padding_id != tokenizer.end_id else None,
        )
        if output.weights is not None:
            wrong = F.cross_entropy(output.logits.detach().float().transpose(1, 2), batch.labels, reduction="none")
            total = total + self.objective.added_loss(output, -wrong, real)
        return LossSum(total, int(real.sum()), correct)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of captions, the size of images and the size of the vocabulary, as one line."""
        size = self.size
        several = f"up to {size.frames} frames of " if size.frames > 1 else ""
        return (
            f"{len(train):,} captions to learn from, {len(validation):,} to validate on, of {several}{size.height} x "
            f"{size.width} pixels; a vocabulary of {self.tokenizer.size:,} tokens"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse a coverage penalty where there is no coverage.

        Raises:
            InputError: naming what to do.
        """
        if self.generation.coverage_penalty > 0:
            check_coverage(model)
        if self.objective.coverage > 0 and not model.has_alignment:
            raise InputError(
                f"data.objective.coverage is {self.objective.coverage}, and {model.config.model_type} has no attention over "
                "images; leave it out"
            )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return the values for regard.json."""
        self.tokenizer.save(folder)
        return {
            "name": self.name,
            "size": self.size.settings(),
            "generation": asdict(self.generation),
            "objective": asdict(self.objective),
        }

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> CaptioningTask:
        """The task that `save` wrote into `folder`, `values` being what it returned."""
        where = f"{folder / 'regard.json'}: task"
        return cls(
            Tokenizer.load(folder),
            from_mapping(ImageSize, values.get("size", {}), f"{where}.size"),
            from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation"),
            from_mapping(Objective, values.get("objective", {}), f"{where}.objective"),
        )

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        return ['print(model.caption("image.jpg").text)']


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointing:
    """Counts over captions, which add up.

    Arguments:
        inside, tokens: of the tokens that name an object, the number whose largest weight is inside it; and the number of all.
        uncovered: the sum over captions of (1 - sum_t alpha_ti)^2, as a mean over image positions i.
        captions: the number of captions.
    """

    inside: int = 0
    tokens: int = 0
    uncovered: float = 0.0
    captions: int = 0

    def __add__(self, other: Pointing) -> Pointing:
        return Pointing(
            inside=self.inside + other.inside,
            tokens=self.tokens + other.tokens,
            uncovered=self.uncovered + other.uncovered,
            captions=self.captions + other.captions,
        )

    def metrics(self) -> dict[str, float]:
        """`pointing`, the share `inside` / `tokens`, where there are such tokens; `uncovered`, the mean over captions."""
        found = {"pointing": self.inside / self.tokens} if self.tokens else {}
        return found | ({"uncovered": self.uncovered / self.captions} if self.captions else {})


@torch.no_grad()
def pointed(model: ImageDecoder, batch: CaptionBatch, named: Sequence[Sequence[Named]]) -> Pointing:
    """Count on a batch of reference captions, with teacher forcing.

    A token's position is the one with the largest weight; it is inside an object if its centre is inside the object's box, in the
    right frame. With hard attention the weights are the probabilities before sampling. A model without attention counts nothing.

    Arguments:
        model: in evaluation mode.
        batch: images with their reference captions.
        named: for each caption, the objects that its tokens name.
    """
    output = model(batch.images, batch.target, attended=True)
    if output.weights is None or output.places is None:
        return Pointing()
    best = output.weights.argmax(dim=-1).cpu().numpy()
    middles = middles_of(model, batch.images.valid.shape[1])
    hits = [
        _inside(middles[best[row, token]], thing)
        for row, things in enumerate(named)
        for thing in things
        for token in range(*thing.words)
    ]
    left = uncovered(output.weights, batch.target.valid, output.places) / output.places.sum(dim=1)
    return Pointing(inside=sum(hits), tokens=len(hits), uncovered=float(left.sum()), captions=len(left))


def middles_of(model: ImageDecoder, frames: int) -> np.ndarray:
    """The frame and the centre (y, x in pixels of that frame) of each image position: (S, 3) float."""
    rows, columns = model.grid
    _, height, width = model.encoder.size
    row, frame, column = np.meshgrid(np.arange(rows), np.arange(frames), np.arange(columns), indexing="ij")
    middles = (frame, (row + 0.5) * height / rows, (column + 0.5) * width / columns)
    return np.stack([axis.reshape(-1) for axis in middles], axis=1)


def _inside(middle: np.ndarray, thing: Named) -> bool:
    frame, down, right = middle.tolist()
    top, left, bottom, after = thing.box
    return frame == thing.frame and top <= down < bottom and left <= right < after


def in_batches(count: int, size: int = 64) -> Iterator[range]:
    """Rows 0 to `count` in batches."""
    return (range(start, min(start + size, count)) for start in range(0, count, size))


def compared(texts: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[dict[str, float], dict[str, str], str]:
    """Metrics of captions, sacreBLEU's signatures, and a note on what could not be computed.

    `exact_match` in [0, 1] is the share of captions that equal one of their references, word for word; `bleu` and `chrf` in
    [0, 100] are corpus scores against all references.

    Arguments:
        texts: the captions, at least one.
        references: the references of each caption, at least one.
    """
    metrics = {
        "exact_match": sum(
            text.split() in [right.split() for right in rights] for text, rights in zip(texts, references, strict=True)
        )
        / len(texts)
    }
    most = max(map(len, references))
    # A column for the first reference of each, one for the second, and so on; None where there are fewer.
    columns = [[rights[i] if i < len(rights) else None for rights in references] for i in range(most)]
    found, signatures, note = bleu_and_chrf(texts, columns)
    return metrics | found, signatures, note


@dataclass(frozen=True, kw_only=True, slots=True)
class Caption:
    """One caption.

    Arguments:
        text: the best caption.
        score: the score of the hypothesis in the search: log-probability / length penalty + coverage penalty.
        log_probability: log p(caption | image), natural log.
        tokens: the tokens that the model generated, the end token included where it generated one.
        alternatives: the further hypotheses of an n-best search as (text, score), best first.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()


class Captioner(Predictor[CaptioningTask]):
    """A captioning model ready to use.

    Arguments:
        model: an `ImageDecoder`.
        task: tokenizer, size of images and decoding settings.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("exact_match", "bleu", "pointing", "uncovered")

    def caption(self, image: ImageInput, settings: GenerationSettings | None = None) -> Caption:
        """The caption of one image, or of one sequence of frames.

        Arguments:
            image: a file; an array (Y, X, C) uint8, or (F, Y, X, C) of frames; or a list of frames, each likewise.
            settings: how to decode; None for the settings of the model's folder.

        Raises:
            InputError: for an image that cannot be read, or more frames than the model reads.
        """
        return self.caption_batch([image], settings)[0]

    def caption_batch(
        self, images: Sequence[ImageInput], settings: GenerationSettings | None = None, *, batch_size: int = 64
    ) -> list[Caption]:
        """The captions of many images, in their order.

        Arguments:
            images: images in any form that `caption` accepts.
            settings: how to decode; None for the settings of the model's folder.
            batch_size: the number of images decoded together. It changes memory and speed, and sampled captions.

        Raises:
            InputError: as `caption`, and for an array of one image in place of a list of them.
        """
        if not isinstance(images, list | tuple):
            raise InputError(f"images are a {type(images).__name__}; give a list with one for each, or use caption")
        settings = (settings or self.task.generation).with_ids(self.task.tokenizer)
        found: list[Caption] = []
        for rows in in_batches(len(images), batch_size):
            found += self._captions([frames_of(images[row], self.task.size) for row in rows], settings)
        return found

    def _captions(self, frames: Sequence[np.ndarray], settings: GenerationSettings) -> list[Caption]:
        source = Images.of(frames).to(self.device)
        watchers = self._watchers()
        observer = Observers(watchers) if watchers else None
        found = search(self.model, source, settings, observer=observer)
        made = [self._caption(hypotheses) for hypotheses in found]
        for watcher in watchers:
            watcher.predicted(made, found)
        return made

    def _caption(self, found: Sequence[Hypothesis]) -> Caption:
        tokenizer, best = self.task.tokenizer, found[0]
        end = [tokenizer.end_id] if best.length > len(best.tokens) else []
        return Caption(
            text=tokenizer.decode(best.tokens),
            score=best.score,
            log_probability=best.log_probability,
            tokens=tuple(tokenizer.tokens([*best.tokens, *end])),
            alternatives=tuple((tokenizer.decode(other.tokens), other.score) for other in found[1:]),
        )

    def teacher_forced(self, examples: Sequence[tuple[ImageInput, str]]) -> CaptionBatch:
        """A batch of images with captions as in training (teacher forcing), on the model's device.

        Raises:
            InputError: as `caption`.
        """
        images = [frames_of(image, self.task.size) for image, _ in examples]
        captions = self.task.tokenizer.encode_batch([caption for _, caption in examples])
        return self.task.batch(images, captions).to(self.device)

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Exact match and BLEU on about the first `count` images, against all captions of each, and metrics of attention.

        `pointing` and `uncovered`, of models with attention, are measured with teacher forcing on the reference captions;
        `pointing` only where the data has the boxes of objects.
        """
        store = cast(CaptionStore, data)
        by_image: dict[tuple[int, int], list[int]] = {}
        for row in range(len(store)):
            span = store.span(row)
            if span not in by_image and len(by_image) == count:
                break
            by_image.setdefault(span, []).append(row)
        tokenizer = self.task.tokenizer
        references = [
            [tokenizer.decode(store.sequence(TARGET, row).tolist()) for row in rows] for rows in by_image.values()
        ]
        images = [np.asarray(store.image(rows[0])) for rows in by_image.values()]
        texts = [caption.text for caption in self.caption_batch(images)]
        metrics, _, _ = compared(texts, references)
        return {name: metrics[name] for name in self.metric_names if name in metrics} | self._pointing(store, by_image)

    def _pointing(self, store: CaptionStore, by_image: dict[tuple[int, int], list[int]]) -> dict[str, float]:
        if not self.model.has_alignment:
            return {}
        rows = [row for rows in by_image.values() for row in rows]
        total = Pointing()
        for places in in_batches(len(rows)):
            chosen = [rows[place] for place in places]
            batch = self.task.read_batch(store, chosen).to(self.device)
            total += pointed(self.model, batch, [store.named(row) for row in chosen])
        return total.metrics()


def prepare_captions(
    data: CaptionData,
    tokenizer: TokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[CaptioningTask]:
    """Read the captions once for the tokenizer and, with the images, once for the stores, and write both into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of builtin data and of the choice of held-out images.
        given, given_validation: images with captions in memory instead of those of `data`, in a form that `CAPTIONS` accepts.

    Raises:
        InputError: for data that cannot be read, or too little data.
    """
    learnt = None if given is None else CAPTIONS.in_memory(given)
    validation = None if given_validation is None else CAPTIONS.in_memory(given_validation)
    size = size_of(data, learnt, seed)

    def again() -> CaptioningTask:
        return CaptioningTask(Tokenizer.load(folder), size, generation, data.objective)

    def write() -> tuple[CaptioningTask, list[str]]:
        notes = write_captions(find_captions(data, size, seed, learnt, validation), data, tokenizer, folder)
        return again(), notes

    return prepare(CaptioningTask, folder, write, again=again, store=CaptionStore.open)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionEvaluation(Evaluation):
    """The results of an evaluation: `predictions` are `Caption`s.

    Its metrics are `exact_match` in [0, 1]; `bleu` and `chrf` in [0, 100] as sacreBLEU computes them, against all references. For
    a model with attention also `uncovered`, how far the weights on an image position are from summing to one over the caption,
    and, where the boxes of objects are known, `pointing` in [0, 1]: of the tokens that name an object, the share whose largest
    weight is inside it.

    Arguments:
        signatures: sacreBLEU's signature of each metric.
        note: what could not be computed and why; may be empty.
    """

    signatures: dict[str, str]
    note: str = ""

    @property
    def captions(self) -> tuple[Caption, ...]:
        """The old name of `predictions`, for one release."""
        warnings.warn("captions is called predictions; use that name", DeprecationWarning, stacklevel=2)
        return self.predictions


def evaluate(
    captioner: Captioner,
    examples: Any,
    settings: GenerationSettings | None = None,
    *,
    batch_size: int = 64,
) -> CaptionEvaluation:
    """Caption the images and compare with the references.

    Arguments:
        examples: images with one or more captions, as training takes them, or builtin scenes.
        settings: how to decode; None for the settings of the model's folder.
        batch_size: the number of images read together.

    Raises:
        InputError: for an empty list, or an image that cannot be read.
    """
    given = CAPTIONS.to_measure(examples)
    captions = captioner.caption_batch([example.image for example in given], settings, batch_size=batch_size)
    metrics, signatures, note = compared(
        [caption.text for caption in captions],
        [[_as_written(text, captioner) for text in example.captions] for example in given],
    )
    if captioner.model.has_alignment:
        metrics |= _pointing(captioner, given, batch_size).metrics()
    return CaptionEvaluation(
        metrics=metrics, signatures=signatures, count=len(given), predictions=tuple(captions), note=note
    )


def _as_written(text: str, captioner: Captioner) -> str:
    """A reference as the model could write it: in lower case if its tokenizer lower-cases."""
    encode, lower = captioner.task.tokenizer.encode, text.lower()
    return lower if encode(text) == encode(lower) else text


def _pointing(captioner: Captioner, examples: Sequence[CaptionExample], batch_size: int) -> Pointing:
    """The counts of `Pointing` with teacher forcing on the first caption of each image."""
    total = Pointing()
    for rows in in_batches(len(examples), batch_size):
        chosen = [examples[row] for row in rows]
        batch = captioner.teacher_forced([(example.image, example.captions[0]) for example in chosen])
        named = [
            [in_tokens(each, example.captions[0], captioner.task.tokenizer) for each in example.named]
            for example in chosen
        ]
        total += pointed(captioner.model, batch, named)
    return total


CAPTIONING = TaskSpec(
    task=CaptioningTask,
    predictor=Captioner,
    interface="captioner",
    sections={"data": CaptionData, "tokenizer": TokenizerSettings, "generation": GenerationSettings},
    prepare=prepare_captions,
    evaluate=evaluate,
    examples=CAPTIONS,
    derived_config={
        "target_vocabulary": 1,
        "padding_id": 0,
        "start_id": 0,
        "end_id": 0,
        "image_height": 1 << 12,  # divisible by 2 more often than any model halves it
        "image_width": 1 << 12,
        "image_channels": 1,
        "frames": 1,
    },
)
