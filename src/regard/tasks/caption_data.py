"""Images with captions: the objective, the `data` section, rows and files, and how they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.data.images import Fit, open_images
from regard.data.labelled_images import read_captions
from regard.data.malformed import MalformedRows
from regard.data.rows import parts_of
from regard.data.scenes import Kind, Named, Objects, Scene, Scenes
from regard.data.token_store import Ids, TokenStore
from regard.errors import InputError
from regard.models.captioning import Captioned, Sampled
from regard.models.config import check
from regard.tasks.examples import Examples, check_amount
from regard.tasks.images import ImageInput, read_frames
from regard.text import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """The terms of the objective besides the captions' log-likelihood (Xu et al. 2015, sections 4.1 and 4.2.1).

    Arguments:
        coverage: lambda of the doubly stochastic term, which wants the weights on each place to sum to one over the words; 0 for
            none. The paper has 1, for captions of a dozen words.
        reinforcement: lambda_r, of the log-probability of what hard attention drew. Its estimate is noise before the words are
            known, so a small one learns sooner; the authors' code has 0.1.
        entropy: lambda_e, of the entropy of what it samples by; above 0 it is kept from settling early.
        baseline_decay: how much of the running mean of log-likelihoods stays at an update.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    coverage: float = 0.0
    reinforcement: float = 0.01
    entropy: float = 0.002
    baseline_decay: float = 0.9

    def __post_init__(self) -> None:
        for name in ("coverage", "reinforcement", "entropy"):
            value = getattr(self, name)
            check(value >= 0, f"data.objective.{name}", value, "0 or more", "raise it")
        value = self.baseline_decay
        check(0 <= value < 1, "data.objective.baseline_decay", value, "in [0, 1)", "the paper has 0.9")

    def beside(self, told: Captioned, log_likelihoods: Tensor, words: Tensor) -> Tensor:
        """The terms that are added to the negative log-likelihood, summed over captions.

            lambda sum_i (1 - sum_t alpha_ti)^2
            - lambda_r sum_t (R_t - b) log alpha_{t, s_t}  -  lambda_e sum_t H[alpha_t]

        Arguments:
            told: the output of the model in training, with its attention weights.
            log_likelihoods: (B, L), of each true word.
            words: (B, L) bool, True = a real word.
        """
        total = log_likelihoods.new_zeros(())
        if told.weights is None or told.places is None:
            return total
        if self.coverage:
            total = total + self.coverage * uncovered(told.weights, words, told.places).sum()
        if told.sampled is not None:
            total = total - self.entropy * (entropy(told.weights) * words).sum()
            total = total - self.reinforcement * self._reinforced(told.weights, told.sampled, log_likelihoods, words)
        return total

    def _reinforced(self, weights: Tensor, sampled: Sampled, log_likelihoods: Tensor, words: Tensor) -> Tensor:
        """REINFORCE: the log-probability of each sample, by how much better than usual what followed was.

        What a sample is credited with is R_t, the mean log-likelihood of the words from t on: those before were written before
        it was sampled, and only add noise to the estimate. The sum of these words would give the exact gradient on average; the
        mean gives it divided by their number, and one baseline serves every t.
        """
        real = words.to(log_likelihoods.dtype)
        known = log_likelihoods.detach() * real
        following = known.flip(1).cumsum(dim=1).flip(1) / real.flip(1).cumsum(dim=1).flip(1).clamp_min(1)
        usual = sampled.baseline.to(following.dtype).clone()
        with torch.no_grad():
            mean = known.sum() / real.sum().clamp_min(1)
            sampled.baseline.mul_(self.baseline_decay).add_((1 - self.baseline_decay) * mean.to(sampled.baseline.dtype))
        chances = weights.gather(2, sampled.places.unsqueeze(-1)).squeeze(-1)
        told = chances.clamp_min(torch.finfo(chances.dtype).tiny).log() * (words & sampled.valid)
        return ((following - usual) * told).sum()


def uncovered(weights: Tensor, words: Tensor, places: Tensor) -> Tensor:
    """How far the weights on each place are from summing to one over the words: sum_i (1 - sum_t alpha_ti)^2, (B,).

    Arguments:
        weights: (B, L, S).
        words: (B, L) bool, True = a real word.
        places: (B, S) bool, True = a real place.

    >>> every = torch.ones(1, 2, dtype=torch.bool)
    >>> uncovered(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), every, every).item()
    0.0
    >>> uncovered(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), every, every).item()
    2.0
    """
    sums = (weights * words.unsqueeze(-1)).sum(dim=1)
    return ((1 - sums).square() * places).sum(dim=1)


def entropy(weights: Tensor) -> Tensor:
    """H = - sum_i alpha_i log alpha_i of each distribution, (..., S) to (...), in nats."""
    return -torch.special.xlogy(weights, weights).sum(dim=-1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScenesData:
    """Builtin images with captions, which say where everything is that is named.

    Arguments:
        kind: `grid`, things in cells of a grid; `line`, a line of handwriting; `moving`, a thing that moves from frame to frame.
        objects: handwritten `digits`, or coloured `shapes`.
        mnist: a folder with MNIST's files to take the digits from; null for those that come with scikit-learn.
        rows, columns: of the grid; a line has one row.
        cell: height and width of a cell in pixels.
        fewest, most: things in a grid or line.
        frames: of `moving`.
        row_words: whether a grid's captions say `top`, `middle` and `bottom`.
        size, validation_size: how many scenes to sample for training and validation; no arrangement is in both.
    """

    kind: Kind = "grid"
    objects: Objects = "digits"
    mnist: str | None = None
    rows: int = 3
    columns: int = 3
    cell: int = 16
    fewest: int = 3
    most: int = 3
    frames: int = 4
    row_words: bool = False
    size: int = 20_000
    validation_size: int = 1_000

    def __post_init__(self) -> None:
        check(
            min(self.size, self.validation_size) > 0,
            "data.scenes.size and validation_size",
            (self.size, self.validation_size),
            "above 0",
            "raise them",
        )

    def scenes(self, split: str, size: int, seed: int) -> Scenes:
        """The scenes of one split.

        Raises:
            InputError: for numbers that make no scene.
        """
        return Scenes(
            split,
            kind=self.kind,
            objects=self.objects,
            mnist=self.mnist,
            rows=self.rows,
            columns=self.columns,
            cell=self.cell,
            fewest=self.fewest,
            most=self.most,
            frames=self.frames,
            row_words=self.row_words,
            size=size,
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of captions: in each line an image's name, a tab and a caption; see `regard.data.labelled_images`.
        images: the folder or zip archive that these images are in. Captions of images that are not there are left out and
            counted.
        validation: another file of captions; images are held out of the training data where null.
        validation_images: where its images are; with the others where null.
        validation_size: how many images to hold out, at most a tenth of all.
        validation_share: the share to hold out, instead of a number.
        scenes: builtin images instead of files.
        height, width: every image becomes so large, in pixels. Scenes have their own size.
        fit: how: `crop` cuts off what is over, `pad` adds black bars, `stretch` changes proportions.
        colour: red, green and blue; one channel of grey where false.
        maximum_tokens: longer captions are left out of training and counted; null keeps all.
        on_error: for a malformed row: `skip` counts and reports it, `stop` is an error.
        objective: additional loss terms.

    Raises:
        InputError: for several kinds of data at once, or sizes below one.
    """

    train: str | None = None
    images: str | None = None
    validation: str | None = None
    validation_images: str | None = None
    validation_size: int = 1_000
    validation_share: float | None = None
    scenes: ScenesData | None = None
    height: int = 128
    width: int = 128
    fit: Fit = "crop"
    colour: bool = True
    maximum_tokens: int | None = None
    on_error: Literal["skip", "stop"] = "skip"
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        for name in ("train", "images", "validation", "validation_images"):
            value = getattr(self, name)
            check(
                self.scenes is None or value is None,
                f"data.{name}",
                value,
                "left out beside data.scenes",
                "choose builtin scenes or your own files",
            )
        if (self.train is None) != (self.images is None):
            raise InputError(
                "data.train and data.images belong together: a file of captions and the place of its images"
            )
        check_amount(self)
        for name in ("height", "width"):
            check(getattr(self, name) > 0, f"data.{name}", getattr(self, name), "above 0", "raise it")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CaptionExample:
    """An image and what may be said of it.

    Arguments:
        image: see `ImageInput`.
        captions: one or more, all right.
        named: what the caption names, and where it is, where that is known; then there is one caption.

    Raises:
        InputError: where there is no caption, or one is empty.
    """

    image: ImageInput
    captions: tuple[str, ...]
    named: tuple[Named, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.captions, str) or not self.captions or not all(text.strip() for text in self.captions):
            raise InputError(f"the captions of an image are {self.captions!r}; give a tuple of texts, none empty")
        if self.named and len(self.captions) > 1:
            raise InputError(
                "places are known by the words of one caption, and there are several; give one, or no places"
            )

    @property
    def frames(self) -> int:
        """How many frames the image has."""
        if isinstance(self.image, np.ndarray):
            return len(self.image) if self.image.ndim == 4 else 1
        return len(self.image) if isinstance(self.image, list | tuple) else 1


def _row(row: Any, called: str, number: int, data: Any) -> CaptionExample:
    del number, data
    if isinstance(row, Scene):
        return example_of(row)
    names = [["image", "picture"], ["captions", "caption", "text"]]
    image, captions = parts_of(row, called, names, CAPTIONS.wanted)
    captions = (captions,) if isinstance(captions, str) else captions
    if not isinstance(captions, list | tuple) or not all(isinstance(text, str) for text in captions):
        raise InputError(f"{called} has the captions {captions!r:.60}; give {CAPTIONS.wanted}")
    return CaptionExample(image=image, captions=tuple(captions))


def _read(data: CaptionData, path: str | list[str], malformed: MalformedRows) -> list[CaptionExample]:
    places = (path, data.images) if isinstance(path, str) else path
    notes: list[str] = []
    del malformed  # the notes of `examples_in` tell of them
    return examples_in(str(places[0]), str(places[1]), colour=data.colour, on_error=data.on_error, notes=notes)


CAPTIONS: Examples[CaptionExample] = Examples(
    type=CaptionExample,
    rows="examples",
    wanted="a CaptionExample, or (image, captions)",
    file="file of captions and its images",
    row=_row,
    read=_read,
)


def example_of(scene: Scene) -> CaptionExample:
    """A builtin scene as an example."""
    return CaptionExample(image=scene.frames, captions=(scene.caption,), named=scene.named)


def in_tokens(named: Named, caption: str, tokenizer: Tokenizer) -> Named:
    """What some words of a caption name, given by the tokens of these words."""
    words = caption.split()
    first, after = (len(tokenizer.encode(" ".join(words[:end]))) if end else 0 for end in named.words)
    return named._replace(words=(first, after))


def examples_in(captions: str, place: str, *, colour: bool, on_error: str, notes: list[str]) -> list[CaptionExample]:
    """The captions of a file, together by image; no image is read yet.

    Arguments:
        captions: the file; see `regard.data.labelled_images`.
        place: the folder or zip archive of its images. Captions of images that are not there are left out and counted.
        colour: how the images are to be read.
        on_error: what a malformed row does.
        notes: gets sentences for the user about what was left out.

    Raises:
        InputError: for a file or a place that cannot be read, or where none of the images is there.
    """
    images, malformed = open_images(place), MalformedRows()
    texts: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    for caption in read_captions(captions, on_error=on_error, malformed=malformed):
        name = images.found(caption.image)
        if name is None:
            missing[caption.image] = missing.get(caption.image, 0) + 1
        else:
            texts.setdefault(name, []).append(caption.text)
    if not texts:
        raise InputError(
            f"{captions}: none of its images is in {place}, such as {next(iter(missing))!r}; there are such as "
            f"{images.names[0]!r}, so give the folder or archive that belongs to the captions"
        )
    if malformed.total:
        notes.append(" ".join(malformed.summary().split()))
    if missing:
        notes.append(
            f"{captions}: {sum(missing.values()):,} captions are of {len(missing):,} images that {place} does not hold, "
            "and "
            f"were left out; {len(texts):,} images are there."
        )
    return [
        CaptionExample(image=lambda name=name: images.read(name, colour=colour), captions=tuple(own))
        for name, own in texts.items()
    ]


TARGET, FRAMES, NAMED = "target", "frames", "named"
"""The columns. `target`: the caption's ids. `frames`: the first frame of its image and the one after the last. `named`: for
each thing that it names the tokens that do (the first, and the one after the last), the frame, and the box in pixels."""

LARGE = 1 << 32
NUMBERS = 7
"""In `named`, for each thing."""


def columns(vocabulary: int) -> dict[str, int]:
    """The columns of a store, for a vocabulary of so many tokens."""
    return {TARGET: vocabulary, FRAMES: LARGE, NAMED: LARGE}


class CaptionStore(TokenStore):
    """A `TokenStore` of captions that knows their images: frames (N, Y, X, C) uint8, read from disk as they are needed.

    Arguments:
        folder: of the ids; the frames are in a file next to it, which `write_frames` made.
        tokens, offsets: as for `TokenStore`.
    """

    def __init__(self, folder: Path, tokens: dict[str, Ids], offsets: dict[str, np.ndarray]) -> None:
        super().__init__(folder, tokens, offsets)
        self.frames = read_frames(folder)

    def image(self, row: int) -> np.ndarray:
        """The frames of a caption's image, (F, Y, X, C) uint8, nothing copied."""
        first, after = self.span(row)
        return self.frames[first:after]

    def span(self, row: int) -> tuple[int, int]:
        """The frames of a caption's image by number: the first, and the one after the last. No two images share one."""
        first, after = self.sequence(FRAMES, row).tolist()
        return first, after

    def named(self, row: int) -> list[Named]:
        """What a caption names, given by tokens, and where it is."""
        numbers = self.sequence(NAMED, row).astype(np.int64).reshape(-1, NUMBERS).tolist()
        return [
            Named((first, after), frame, (top, left, bottom, right))
            for first, after, frame, top, left, bottom, right in numbers
        ]

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (CaptionStore.open, (self._folder.absolute(),))


def numbers_of(named: Sequence[Named]) -> list[int]:
    """What is named, as the column `named` has it."""
    return [number for each in named for number in (*each.words, each.frame, *each.box)]
