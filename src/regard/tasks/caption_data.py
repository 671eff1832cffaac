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
    """The loss terms besides the captions' log-likelihood (Xu et al. 2015, sections 4.1 and 4.2.1).

    Arguments:
        coverage: lambda, the weight of the doubly stochastic term, which makes the weights on each image position sum to one over
            the words; 0 for none. The paper uses 1, for captions of about a dozen words.
        reinforcement: lambda_r, the weight of the REINFORCE term of hard attention. Its estimate is mostly noise until the words
            are learned, so a small weight learns faster; the authors' code uses 0.1.
        entropy: lambda_e, the weight of the entropy of the sampling distribution; above 0 it keeps the distribution from becoming
            peaked early.
        baseline_decay: the decay of the running mean of log-likelihoods that is the baseline.

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

    def added_loss(self, output: Captioned, log_likelihoods: Tensor, words: Tensor) -> Tensor:
        """The terms that are added to the negative log-likelihood, summed over captions; updates the baseline.

            lambda sum_i (1 - sum_t alpha_ti)^2
            - lambda_r sum_t (R_t - b) log alpha_{t, s_t}  -  lambda_e sum_t H[alpha_t]

        Arguments:
            output: the output of the model in training, with its attention weights.
            log_likelihoods: (B, L), the log-likelihood of each reference word.
            words: (B, L) bool, True = a real word, False = padding.
        """
        total = log_likelihoods.new_zeros(())
        if output.weights is None or output.places is None:
            return total
        if self.coverage:
            total = total + self.coverage * uncovered(output.weights, words, output.places).sum()
        if output.sampled is not None:
            total = total - self.entropy * (entropy(output.weights) * words).sum()
            total = total - self.reinforcement * self._reinforced(
                output.weights, output.sampled, log_likelihoods, words
            )
        return total

    def _reinforced(self, weights: Tensor, sampled: Sampled, log_likelihoods: Tensor, words: Tensor) -> Tensor:
        """REINFORCE: sum_t (R_t - b) log alpha_{t, s_t}, of the samples s_t.

        The reward R_t is the mean log-likelihood of the words from t on: earlier words do not depend on the sample and would only
        add noise to the estimate. With the sum of these words the expected gradient would be exact; with the mean it is divided
        by their number, so that one baseline b fits every t.
        """
        real = words.to(log_likelihoods.dtype)
        known = log_likelihoods.detach() * real
        following = known.flip(1).cumsum(dim=1).flip(1) / real.flip(1).cumsum(dim=1).flip(1).clamp_min(1)
        baseline = sampled.baseline.to(following.dtype).clone()
        with torch.no_grad():
            mean = known.sum() / real.sum().clamp_min(1)
            sampled.baseline.mul_(self.baseline_decay).add_((1 - self.baseline_decay) * mean.to(sampled.baseline.dtype))
        chances = weights.gather(2, sampled.places.unsqueeze(-1)).squeeze(-1)
        log_chances = chances.clamp_min(torch.finfo(chances.dtype).tiny).log() * (words & sampled.valid)
        return ((following - baseline) * log_chances).sum()


def uncovered(weights: Tensor, words: Tensor, places: Tensor) -> Tensor:
    """The coverage penalty sum_i (1 - sum_t alpha_ti)^2 of each caption, (B,): 0 if the weights on each position sum to one.

    Arguments:
        weights: (B, L, S), the attention weights alpha of each word over the image positions.
        words: (B, L) bool, True = a real word, False = padding.
        places: (B, S) bool, True = a real image position, False = padding.

    >>> every = torch.ones(1, 2, dtype=torch.bool)
    >>> uncovered(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), every, every).item()
    0.0
    >>> uncovered(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), every, every).item()
    2.0
    """
    sums = (weights * words.unsqueeze(-1)).sum(dim=1)
    return ((1 - sums).square() * places).sum(dim=1)


def entropy(weights: Tensor) -> Tensor:
    """The entropy H = - sum_i alpha_i log alpha_i of each distribution, (..., S) to (...), in nats."""
    return -torch.special.xlogy(weights, weights).sum(dim=-1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScenesData:
    """Builtin images with captions, and with the positions of all named objects.

    Arguments:
        kind: `grid`, objects in the cells of a grid; `line`, a line of handwriting; `moving`, an object that moves from frame to
            frame.
        objects: handwritten `digits`, or coloured `shapes`.
        mnist: a folder with MNIST's files for the digits; null for the digits of scikit-learn.
        rows, columns: the size of the grid; a line has one row.
        cell: height and width of a cell in pixels.
        fewest, most: the minimum and maximum number of objects in a grid or line.
        frames: the number of frames of `moving`.
        row_words: whether the captions of a grid contain the words `top`, `middle` and `bottom`.
        size, validation_size: the number of scenes for training and for validation; no arrangement is in both.
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
            InputError: for sizes with which no scene can be made.
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
        images: the folder or zip archive of these images. Captions of missing images are left out and counted.
        validation: another file of captions; if null, images are held out from the training data.
        validation_images: the folder or zip archive of its images; `images` if null.
        validation_size: how many images to hold out, at most a tenth of all.
        validation_share: the share to hold out, instead of a number.
        scenes: builtin images instead of files.
        height, width: the size in pixels to which every image is converted. Scenes have their own size.
        fit: how an image of other proportions is converted: `crop` cuts off its edges, `pad` adds black bars, `stretch` changes
            its proportions.
        colour: true for red, green and blue; false for one grey channel.
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
                "left out if data.scenes is given",
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
    """An image with its reference captions.

    Arguments:
        image: see `ImageInput`.
        captions: one or more reference captions.
        named: the objects that the caption names, with their positions, if known; then there must be one caption.

    Raises:
        InputError: if there is no caption, or one is empty; for `named` with several captions.
    """

    image: ImageInput
    captions: tuple[str, ...]
    named: tuple[Named, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.captions, str) or not self.captions or not all(text.strip() for text in self.captions):
            raise InputError(f"the captions of an image are {self.captions!r}; give a tuple of texts, none empty")
        if self.named and len(self.captions) > 1:
            raise InputError(
                "`named` refers to the words of one caption, and several captions are given; give one caption, or no `named`"
            )

    @property
    def frames(self) -> int:
        """The number of frames of the image."""
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
    del malformed  # `examples_in` reports malformed rows in its notes
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
    """A named object with the token positions of its words instead of their word positions."""
    words = caption.split()
    first, after = (len(tokenizer.encode(" ".join(words[:end]))) if end else 0 for end in named.words)
    return named._replace(words=(first, after))


def examples_in(captions: str, place: str, *, colour: bool, on_error: str, notes: list[str]) -> list[CaptionExample]:
    """The captions of a file, grouped by image; images are not read yet.

    Arguments:
        captions: the file; see `regard.data.labelled_images`.
        place: the folder or zip archive of its images. Captions of missing images are left out and counted.
        colour: whether to read the images in colour.
        on_error: what to do with a malformed row: `skip` or `stop`.
        notes: a list to which messages about left-out rows are appended.

    Raises:
        InputError: for a file, folder or archive that cannot be read, or if all images are missing.
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
            f"{captions}: none of its images, such as {next(iter(missing))!r}, is in {place}, which has images such as "
            f"{images.names[0]!r}; give the folder or archive that belongs to the captions"
        )
    if malformed.total:
        notes.append(" ".join(malformed.summary().split()))
    if missing:
        notes.append(
            f"{captions}: {sum(missing.values()):,} captions were left out, because {len(missing):,} images are not in "
            f"{place}; {len(texts):,} images are there."
        )
    return [
        CaptionExample(image=lambda name=name: images.read(name, colour=colour), captions=tuple(own))
        for name, own in texts.items()
    ]


TARGET, FRAMES, NAMED = "target", "frames", "named"
"""The columns of a store. `target`: the caption's ids. `frames`: the first frame of its image and the one after the last.
`named`: for each object that it names, its tokens (the first, and the one after the last), its frame, and its box in pixels."""

LARGE = 1 << 32
NUMBERS = 7
"""The number of values in `named` for each object."""


def columns(vocabulary: int) -> dict[str, int]:
    """The columns of a store with the largest value of each, for a vocabulary of `vocabulary` tokens."""
    return {TARGET: vocabulary, FRAMES: LARGE, NAMED: LARGE}


class CaptionStore(TokenStore):
    """A `TokenStore` of captions with their images: frames (N, Y, X, C) uint8, which are read from disk when they are needed.

    Arguments:
        folder: the folder of the ids; the frames are in a file next to it, which `write_frames` wrote.
        tokens, offsets: as for `TokenStore`.
    """

    def __init__(self, folder: Path, tokens: dict[str, Ids], offsets: dict[str, np.ndarray]) -> None:
        super().__init__(folder, tokens, offsets)
        self.frames = read_frames(folder)

    def image(self, row: int) -> np.ndarray:
        """The frames of a caption's image, (F, Y, X, C) uint8, without a copy."""
        first, after = self.span(row)
        return self.frames[first:after]

    def span(self, row: int) -> tuple[int, int]:
        """The numbers of the frames of a caption's image: the first, and the one after the last; they identify the image."""
        first, after = self.sequence(FRAMES, row).tolist()
        return first, after

    def named(self, row: int) -> list[Named]:
        """The objects that a caption names, with their token positions and boxes."""
        numbers = self.sequence(NAMED, row).astype(np.int64).reshape(-1, NUMBERS).tolist()
        return [
            Named((first, after), frame, (top, left, bottom, right))
            for first, after, frame, top, left, bottom, right in numbers
        ]

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (CaptionStore.open, (self._folder.absolute(),))


def numbers_of(named: Sequence[Named]) -> list[int]:
    """Named objects as values of the column `named`."""
    return [number for each in named for number in (*each.words, each.frame, *each.box)]
