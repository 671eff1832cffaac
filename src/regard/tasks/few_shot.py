"""Learning classes from a few labelled images, episode by episode."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.labelled_images import (
    Characters,
    Episode,
    Episodes,
    alphabets_of,
    digit_characters,
    read_characters,
    with_bright_ink,
)
from regard.data.malformed import MalformedRows
from regard.data.rows import parts_of
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers.embeddings import check_finite
from regard.models.config import check
from regard.structure import from_mapping
from regard.tasks.examples import Examples, amount_of, check_amount, generator_of
from regard.tasks.images import ImageClassification, ImageInput, ImageSize, frames_of
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.predictor import Evaluation, Predictor
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, prepare
from regard.tasks.spec import TaskSpec
from regard.tasks.task import LossSum, Task, TensorBatch
from regard.text import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class FewShotData:
    """The `data` section of a recipe: images by class, classes by alphabet, and the size of episodes.

    Arguments:
        train: a folder or zip archive of images, ALPHABET/CHARACTER/IMAGE, such as Omniglot's `images_background.zip`.
        validation: another folder or archive for validation; if null, alphabets are held out from `train`.
        alphabets: the alphabets of `train` to train on; null for all that are not held out.
        validation_alphabets: the alphabets to validate on; null for all of `validation`, or for a share of `train`
            (`validation_share`) sampled with the seed.
        validation_share: the share of alphabets to hold out.
        validation_size: the number of alphabets to hold out instead.
        builtin: `digits`, the handwritten digits of scikit-learn, instead of files: 0 to 4 for training, 5 to 9 held out.
        ways: N, the number of classes in an episode.
        shots: K, the number of labelled images of each class.
        side: the height and width to which images are resized, in pixels.
        turned: whether in training a character rotated by multiples of 90 degrees counts as four characters.
        asked: Q, the number of query images in an episode of training, each read separately after the labelled images. It is 1 in
            the paper; with one per class a model learns far more from the same number of images.

    Raises:
        InputError: for files and builtin data at once, alphabets both in training and held out, or a number out of range.
    """

    train: str | tuple[str, ...] | None = None
    validation: str | None = None
    alphabets: tuple[str, ...] | None = None
    validation_alphabets: tuple[str, ...] | None = None
    validation_share: float = 0.2
    validation_size: int | None = None
    builtin: Literal["digits"] | None = None
    ways: int = 5
    shots: int = 1
    side: int = 28
    turned: bool = True
    asked: int = 1

    def __post_init__(self) -> None:
        check(self.ways >= 2, "data.ways", self.ways, "at least 2", "5 and 20 are usual")
        check(self.shots >= 1, "data.shots", self.shots, "at least 1", "1 and 5 are usual")
        check(self.asked >= 1, "data.asked", self.asked, "at least 1", "1 and data.ways are usual")
        check(2 <= self.side <= 256, "data.side", self.side, "from 2 to 256", "28 is usual")
        check_amount(self)
        for name in ("train", "validation", "alphabets", "validation_alphabets"):
            if self.builtin is not None and getattr(self, name) is not None:
                raise InputError(f"data.{name} and data.builtin={self.builtin} are both given; choose one of the two")
        both = sorted(set(self.alphabets or ()) & set(self.validation_alphabets or ()))
        if both and self.validation is None:
            raise InputError(f"data.alphabets and data.validation_alphabets both name {both[0]!r}; leave it out of one")

    @property
    def place(self) -> str:
        """The folder or archive of the training images.

        Raises:
            InputError: if none or several are named.
        """
        places = (self.train,) if isinstance(self.train, str) else self.train or ()
        if len(places) != 1:
            raise InputError(
                f"data.train names {len(places) or 'no'} folders or archives of images; name one, or data.builtin=digits"
            )
        return places[0]


STREAM = 0xA1FA
"""Makes the choice of held-out alphabets independent of other samples with the same seed."""

PIXELS, CLASS = "pixels", "kind"
"""The columns of the token stores: the pixels of an image, and the number of its class."""


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        images: (B, N K + Q, side, side) uint8, the labelled images first, then the query images.
        labels: (B, N K) int64, the labels of the labelled images.
        asked: (B, Q) int64, the labels of the query images, to be predicted.
    """

    images: Tensor
    labels: Tensor
    asked: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotTask(Task):
    """Turns images into episodes, and a model's outputs into a loss.

    An example is a query image. Its episode is sampled again each time, with other classes, other images of each class, and other
    labels. So a model cannot learn the classes themselves, only how to distinguish classes.

    Arguments:
        ways: N, the number of classes in an episode.
        shots: K, the number of labelled images of each class.
        side: height and width of an image, in pixels.
        turned: whether in training a character rotated by multiples of 90 degrees counts as four characters.
        asked: Q, the number of query images in an episode of training; it is 1 in validation and evaluation.
    """

    name: ClassVar[str] = "few_shot"
    unit: ClassVar[str] = "images"

    ways: int
    shots: int
    side: int
    turned: bool = False
    asked: int = 1

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Empty, because there is no text."""
        return {}

    @property
    def size(self) -> ImageSize:
        """The size to which every image is converted."""
        return ImageSize(height=self.side, width=self.side, channels=1, fit="pad")

    def model_settings(self) -> dict[str, int]:
        """The settings of a model's config that follow from the size of episodes."""
        return {"ways": self.ways, "shots": self.shots, "side": self.side}

    def episodes(self, data: TokenStore, *, training: bool = False) -> Episodes:
        """A sampler of episodes of a store's images; outside training with one query image and no rotations."""
        turned, asked = (self.turned, self.asked) if training else (False, 1)
        return Episodes(data.numbers(CLASS), ways=self.ways, shots=self.shots, turned=turned, asked=asked)

    def batch(self, data: TokenStore, episodes: Sequence[Episode]) -> EpisodeBatch:
        """Episodes of a store's images as tensors."""
        images = np.stack(
            [[self._image(data, *each) for each in zip(e.images, e.turns, strict=True)] for e in episodes]
        )
        labels = torch.from_numpy(np.stack([episode.labels for episode in episodes]))
        shown = self.ways * self.shots
        return EpisodeBatch(torch.from_numpy(images), labels[:, :shown], labels[:, shown:])

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The number of images of each training episode, (N, 1)."""
        return np.full((len(data), 1), self.ways * self.shots + self.asked, dtype=np.int64)

    def labels(self, data: TokenStore) -> np.ndarray:
        """The number of query images of each training episode, (N,)."""
        return np.full(len(data), self.asked, dtype=np.int64)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EpisodeBatch:
        """The validation episodes of these query images, which are the same at each call."""
        episodes = self.episodes(data)
        return self.batch(data, [episodes.about(row, 0) for row in rows])

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> EpisodeBatch:
        """Training episodes of these query images, which differ for each `draw`."""
        episodes = self.episodes(data, training=True)
        return self.batch(data, [episodes.about(row, draw + 1) for row in rows])

    def loss(self, model: nn.Module, batch: EpisodeBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the classes of the query images, summed over them."""
        logits = model(batch.images, batch.labels)
        total, correct = smoothed_cross_entropy(logits.flatten(0, 1), batch.asked.flatten(), smoothing=smoothing)
        return LossSum(total, batch.asked.numel(), correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss, and the share of images whose class was predicted correctly."""
        return {"loss": loss, "accuracy": right}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of images and classes and the size of episodes, as one line."""
        parts = [
            f"{len(data):,} images of {int(data.numbers(CLASS).max()) + 1:,} classes" for data in (train, validation)
        ]
        turned = ", each in four rotations," if self.turned else ""
        return (
            f"{parts[0]}{turned} to learn from, {parts[1]} to validate on; episodes of {self.ways} classes, "
            f"{self.shots} image(s) of each and {self.asked} query image(s)"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse images with which no episode can be sampled.

        Raises:
            InputError: for too few classes, or too few images of one.
        """
        del model
        for name, data, training in (("training", train, True), ("validation", validation, False)):
            reason = self.episodes(data, training=training).too_few
            if reason:
                raise InputError(
                    f"the {name} images: {reason}; lower data.ways, data.shots or data.asked, or give more"
                )

    def save(self, folder: Path) -> dict[str, Any]:
        """The values for regard.json; there are no other files."""
        del folder
        return {"name": self.name, **self.model_settings(), "turned": self.turned, "asked": self.asked}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> FewShotTask:
        """Rebuild the task from the state that `save` wrote."""
        settings = {key: value for key, value in values.items() if key != "name"}
        return from_mapping(cls, settings, f"{folder / 'regard.json'}: task")

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        return [
            f"# {self.ways} classes, {self.shots} image(s) of each: arrays of uint8, ink bright on black",
            'print(model.classify([(image, "a"), (other, "b"), ...], asked).label)',
        ]

    def _image(self, data: TokenStore, row: int, turns: int) -> np.ndarray:
        pixels = data.sequence(PIXELS, int(row)).astype(np.uint8).reshape(self.side, self.side)
        return np.rot90(pixels, int(turns))


TOGETHER = 64
"""The number of query images in one batch."""


class FewShotClassifier(Predictor[FewShotTask]):
    """A few-shot learner ready to use: labelled images and a query image in, an `ImageClassification` out.

    Arguments:
        model: a `FewShotLearner`.
        task: the size of episodes.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    def classify(self, shown: Sequence[tuple[ImageInput, str]], asked: ImageInput) -> ImageClassification:
        """Predict the label of an image from labelled images.

        Arguments:
            shown: images with labels; the number of labels and of images per label must be those of training. An image is a
                file, or an array (Y, X) or (Y, X, C) uint8; as in training, it is converted to grey, fitted into the model's
                square, and inverted if its edge is bright.
            asked: the query image.

        Raises:
            InputError: for another number of labels or of images per label, or an image that cannot be read.
        """
        return self.classify_batch(shown, [asked])[0]

    def classify_batch(
        self, shown: Sequence[tuple[ImageInput, str]], asked: Sequence[ImageInput]
    ) -> list[ImageClassification]:
        """Predict the labels of many images, each one independently from the labelled images.

        Arguments:
            shown, asked: as in `classify`; the results are in the order of `asked`.

        Raises:
            InputError: as `classify`.
        """
        names = self._labels([label for _, label in shown])
        examples = [self._read(image) for image, _ in shown]
        labels = torch.tensor([[names.index(label) for _, label in shown]])
        found: list[ImageClassification] = []
        for start in range(0, len(asked), TOGETHER):
            further = [self._read(image) for image in asked[start : start + TOGETHER]]
            images = torch.from_numpy(np.stack([*examples, *further]))[None]
            unknown = torch.zeros(1, len(further), dtype=torch.int64)
            batch = EpisodeBatch(images, labels, unknown).to(self.device)
            with torch.no_grad():
                logits = check_finite(self.model(batch.images, batch.labels).float(), "these images")
                shares = logits.softmax(dim=-1)[0]
            found += [ImageClassification.of(names, row) for row in shares.tolist()]
        return found

    def _labels(self, given: Sequence[str]) -> list[str]:
        """The distinct labels of the labelled images.

        Raises:
            InputError: if the number of labels or of images per label differs from training.
        """
        counts = Counter(given)
        if len(counts) != self.task.ways or set(counts.values()) != {self.task.shots}:
            have = ", ".join(f"{label} ({count})" for label, count in sorted(counts.items())[:20]) or "none"
            raise InputError(
                f"the labelled images are of {len(counts)} classes: {have}; this model needs {self.task.ways} classes with "
                f"{self.task.shots} image(s) of each"
            )
        return sorted(counts)

    def _read(self, image: ImageInput) -> np.ndarray:
        """An image as in training: (side, side) uint8, ink bright on black."""
        return with_bright_ink(frames_of(image, self.task.size)[0, ..., 0])


MOST_CLASSES = 1 << 20

LEARNT, HELD_OUT = (0, 1, 2, 3, 4), (5, 6, 7, 8, 9)
"""The class names of the builtin digits."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A query image of a set of images.

    Arguments:
        characters: the set.
        image: the number of the image in the set.
    """

    characters: Characters
    image: int


@dataclass(frozen=True, slots=True, eq=False)
class CharacterImage:
    """An image and its class, such as `Greek/alpha`."""

    image: ImageInput
    name: str


def _row(row: Any, called: str, number: int, data: Any) -> CharacterImage | Question:
    del number, data
    if isinstance(row, Question):
        return row
    image, name = parts_of(row, called, [["image", "picture"], ["class", "label", "character"]], IMAGES.wanted)
    if not isinstance(name, str | int) or name == "":
        raise InputError(f"{called} has the class {name!r:.60}; give {IMAGES.wanted}")
    return CharacterImage(image, str(name))


IMAGES: Examples[CharacterImage | Question] = Examples(
    type=CharacterImage,
    rows="images",
    wanted="(image, class)",
    file="folder or archive of images",
    row=_row,
    read=lambda data, path, malformed: (),  # not read one by one: an episode needs all images of a class
)


def characters_of(given: Any, side: int) -> Characters:
    """Images in memory by class, from `Characters` or from rows in a form that `IMAGES` accepts.

    Arguments:
        side: the height and width to which images are resized, in pixels.

    Raises:
        InputError: naming the first row that is not an image with a class.
    """
    if isinstance(given, Characters):
        return given
    size = ImageSize(height=side, width=side, channels=1, fit="pad")
    rows = [row for row in IMAGES.in_memory(given) if isinstance(row, CharacterImage)]
    names = tuple(sorted({row.name for row in rows}))
    ordered = sorted(rows, key=lambda row: row.name)
    pixels = [with_bright_ink(frames_of(row.image, size)[0, ..., 0]) for row in ordered]
    classes = [names.index(row.name) for row in ordered]
    return Characters(np.stack(pixels), np.array(classes, dtype=np.int64), names)


def prepare_episodes(
    data: FewShotData, folder: Path, *, seed: int, given: Any = None, given_validation: Any = None
) -> Prepared[FewShotTask]:
    """Read the images and write them into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out alphabets.
        given, given_validation: images in memory instead of those of `data`, in a form that `characters_of` accepts; both or
            neither.

    Raises:
        InputError: for images that cannot be read, or too few alphabets to hold some out.
    """

    def write() -> tuple[FewShotTask, list[str]]:
        sets = _read(data, seed) if given is None and given_validation is None else (given, given_validation)
        for name, characters in zip((TRAIN, VALIDATION), sets, strict=True):
            if characters is None or not len(characters):
                raise InputError(f"there are no {name} images; give some")
            write_images(folder / name, characters_of(characters, data.side))
        return FewShotTask(ways=data.ways, shots=data.shots, side=data.side, turned=data.turned, asked=data.asked), []

    return prepare(FewShotTask, folder, write)


def write_images(place: Path, characters: Characters) -> TokenStore:
    """Write a store of images and their classes."""
    rows = zip(characters.pixels.reshape(len(characters), -1), characters.classes[:, None], strict=True)
    return TokenStore.write(place, {PIXELS: 256, CLASS: MOST_CLASSES}, rows)


def _read(data: FewShotData, seed: int) -> tuple[Characters, Characters]:
    if data.builtin is not None:
        return digit_characters(LEARNT, side=data.side), digit_characters(HELD_OUT, side=data.side)
    if data.validation is not None:
        return read_characters(data.place, data.alphabets, side=data.side), read_characters(
            data.validation, data.validation_alphabets, side=data.side
        )
    known = alphabets_of(data.place)
    held_out = data.validation_alphabets or _held_out(known, data, seed)
    left = tuple(name for name in known if name not in held_out)
    if not left:
        raise InputError(f"{data.place}: all alphabets are held out; leave some to learn from")
    return (
        read_characters(data.place, data.alphabets or left, side=data.side),
        read_characters(data.place, held_out, side=data.side),
    )


def _held_out(known: Sequence[str], data: FewShotData, seed: int) -> tuple[str, ...]:
    """The alphabets to hold out, sampled from those not in `data.alphabets`: as many as the recipe sets, at least one."""
    free = [name for name in known if name not in (data.alphabets or ())]
    if not free or len(known) < 2:
        raise InputError(
            f"{data.place}: there is no alphabet to hold out; name fewer in data.alphabets, or name data.validation"
        )
    amount = amount_of(data)
    wanted = amount["size"] or max(1, round(amount["share"] * len(known)))
    count = min(len(free), wanted, len(known) - 1)
    return tuple(sorted(generator_of(seed, STREAM).choice(free, size=count, replace=False).tolist()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The result of one episode.

    Arguments:
        character: the class of the query image.
        right: whether it was predicted correctly.
    """

    character: str
    right: bool


def evaluate_episodes(model: FewShotClassifier, questions: Any) -> Evaluation:
    """Predict the classes of query images, each in an episode sampled from its set with a fixed seed.

    Its metrics are `loss`, the mean of -log p of the correct class (natural log), and `accuracy`, the share of correct classes.

    Arguments:
        questions: query images of one set, such as from `read_episodes`; or images with their classes, in a form that `IMAGES`
            accepts, each of which is a query image.

    Raises:
        InputError: for no images, or too few classes to sample episodes from.
    """
    given = IMAGES.to_measure(questions)
    asked = [row for row in given if isinstance(row, Question)]
    if not asked:
        images = characters_of(given, model.task.side)
        asked = [Question(images, number) for number in range(len(images))]
    task, characters = model.task, asked[0].characters
    losses, right = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = write_images(Path(folder) / "images", characters)
        reason = task.episodes(store).too_few
        if reason:
            raise InputError(f"the images: {reason}; give more")
        for start in range(0, len(asked), TOGETHER):
            rows = [question.image for question in asked[start : start + TOGETHER]]
            batch = task.read_batch(store, rows).to(model.device)
            with torch.no_grad():
                logits = check_finite(model.model(batch.images, batch.labels).float(), "these images")
                shares = logits.log_softmax(dim=-1)
            losses += (-shares.gather(-1, batch.asked[..., None])).flatten().tolist()
            right += (shares.argmax(dim=-1) == batch.asked).flatten().tolist()
    names = [characters.names[characters.classes[question.image]] for question in asked]
    return Evaluation(
        metrics={"loss": sum(losses) / len(losses), "accuracy": sum(right) / len(right)},
        count=len(asked),
        predictions=tuple(Asked(character=name, right=each) for name, each in zip(names, right, strict=True)),
    )


def read_episodes(data: FewShotData, malformed: MalformedRows) -> Iterator[Question]:
    """A question about every image of the alphabets that `data` names (or of the held-out builtin digits), in a fixed order."""
    del malformed
    if data.builtin is not None:
        characters = digit_characters(HELD_OUT, side=data.side)
    else:
        characters = read_characters(data.place, data.alphabets, side=data.side)
    order = generator_of(0, STREAM).permutation(len(characters))
    return (Question(characters, int(image)) for image in order)


FEW_SHOT = TaskSpec(
    task=FewShotTask,
    predictor=FewShotClassifier,
    interface="few_shot",
    sections={"data": FewShotData},
    prepare=prepare_episodes,
    examples=IMAGES,
    evaluate=evaluate_episodes,
    read=read_episodes,
    derived_config={"ways": 2, "shots": 1, "side": 256},
)
