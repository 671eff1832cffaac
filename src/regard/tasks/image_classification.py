"""Classes of images."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.images import PREPROCESSOR, prepared_as, preprocessor_to_hf
from regard.data.labelled_images import LabelledImage, read_labelled_images
from regard.data.malformed import MalformedRows
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import Images
from regard.layers.embeddings import check_finite
from regard.metrics.classification import OF_EACH_CLASS, ClassScore, by_class, classification_scores
from regard.models import ViTConfig
from regard.reading import read_json_object
from regard.structure import from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.examples import amount_held_out, amount_of, generator_of
from regard.tasks.image_data import IMAGES, LABEL, MOST_CLASSES, ImageData, ImageStore, moved, read_images
from regard.tasks.images import (
    ImageClassification,
    ImageInput,
    ImageSize,
    frames_as_given,
    frames_file,
    frames_of,
    write_frames,
)
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.predictor import Evaluation, Predictor
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, prepare
from regard.tasks.spec import TaskSpec
from regard.tasks.task import LossSum, Task, TensorBatch
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class ImageBatch(TensorBatch):
    """A batch for one step of training.

    Arguments:
        images: B images.
        labels: (B,) int64, the numbers of their classes.
    """

    images: Images
    labels: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageClassificationTask(Task):
    """Turns images with classes into a model's tensors, and its outputs into a loss.

        p(class | image) = softmax(logits)

    Arguments:
        size: the size of images.
        classes: the names of the classes, in the order of the model's outputs.
        shift, flip: the changes of images in training; see `moved`.
    """

    name: ClassVar[str] = "image_classification"
    unit: ClassVar[str] = "images"

    size: ImageSize
    classes: tuple[str, ...]
    shift: int = 0
    flip: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

    def counts(self, data: TokenStore) -> dict[str, int]:
        """The number of images of each class."""
        found = np.bincount(data.numbers(LABEL), minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, found, strict=True))

    def metric_words(self) -> dict[str, str]:
        """The name of F1 for reports: the mean over classes."""
        return {"f1": f"F1 (mean of {len(self.classes)} classes)"}

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Empty, because there is no text."""
        return {}

    def number_of(self, label: str, where: str) -> int:
        """The number of a class.

        Raises:
            InputError: for a label that is not one of the classes.
        """
        if label not in self.classes:
            raise InputError(f"{where}: the class {label!r} is none of the model's; {nearest(label, self.classes)}")
        return self.classes.index(label)

    def model_settings(self) -> dict[str, Any]:
        """The size of images and the number of classes."""
        return {
            "image_height": self.size.height,
            "image_width": self.size.width,
            "image_channels": self.size.channels,
            "outputs": len(self.classes),
        }

    def lengths(self, data: TokenStore) -> np.ndarray:
        """1 for each image, (N, 1), so that the number of tokens of a batch is its number of images."""
        return np.ones((len(data), 1), dtype=np.int64)

    def labels(self, data: TokenStore) -> np.ndarray:
        """One label for each image, (N,)."""
        return np.ones(len(data), dtype=np.int64)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> ImageBatch:
        """The images of these rows as a batch."""
        return self._batch(data, rows, self._pixels(data, rows))

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> ImageBatch:
        """The same batch for training, with images shifted and mirrored as set by `shift` and `flip`."""
        pixels = self._pixels(data, rows)
        if self.shift or self.flip:
            pixels = moved(pixels, rows, draw, shift=self.shift, flip=self.flip)
        return self._batch(data, rows, pixels)

    def _pixels(self, data: TokenStore, rows: Sequence[int]) -> np.ndarray:
        return cast(ImageStore, data).images[np.asarray(rows, dtype=np.int64)]

    def _batch(self, data: TokenStore, rows: Sequence[int], pixels: np.ndarray) -> ImageBatch:
        labels = [int(data.sequence(LABEL, int(row))[0]) for row in rows]
        return ImageBatch(batch_of(pixels), torch.tensor(labels, dtype=torch.int64))

    def loss(self, model: nn.Module, batch: ImageBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the classes, summed over images."""
        total, correct = smoothed_cross_entropy(model(batch.images), batch.labels, smoothing=smoothing)
        return LossSum(total, len(batch.labels), correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The mean loss; `validate` computes the accuracy."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of images and of classes, as one line."""
        size, names = self.size, self.classes
        few = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        return (
            f"{len(train):,} images to train on, {len(validation):,} to validate on, of {size.height} x {size.width} "
            "pixels"
            f"{' in colour' if size.channels == 3 else ''}; {len(names)} classes ({few})"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Nothing to check: the model has the sizes of the task."""
        del model, train, validation

    def save(self, folder: Path) -> dict[str, Any]:
        """The values for regard.json; there are no other files."""
        del folder
        return {
            "name": self.name,
            "size": self.size.settings(),
            "classes": list(self.classes),
            "shift": self.shift,
            "flip": self.flip,
        }

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> ImageClassificationTask:
        """Rebuild the task from the state that `save` wrote."""
        settings = {key: value for key, value in values.items() if key != "name"}
        return from_mapping(cls, settings, f"{folder / 'regard.json'}: task")

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a model into an existing folder, with preprocessor_config.json if transformers opens it."""
        use = ['print(model.classify("image.png").label)']
        said = {
            "id2label": {str(number): name for number, name in enumerate(self.classes)},
            "label2id": {name: number for number, name in enumerate(self.classes)},
        }
        layout = write_with_card(
            folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use, said=said
        )
        if "why" not in layout:
            values = preprocessor_to_hf(config, self.size.as_steps())
            (folder / PREPROCESSOR).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def batch_of(pixels: np.ndarray) -> Images:
    """Images (B, Y, X, C) uint8 as the input of a model, one frame each."""
    copied = np.array(pixels)  # a mapped array is read-only
    frames = torch.from_numpy(copied).permute(0, 3, 1, 2).unsqueeze(1)
    return Images(frames, torch.ones(len(pixels), 1, dtype=torch.bool))


TOGETHER = 256
"""The number of images in one batch."""


class ImageClassifierPredictor(Predictor[ImageClassificationTask]):
    """A classifier of images, ready to use.

    Arguments:
        model: a `regard.layers.ImageClassifier`.
        task: the size of images, and the classes.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "f1")
    metrics_of_each: ClassVar[tuple[str, ...]] = OF_EACH_CLASS
    validates_all: ClassVar[bool] = True

    def classify(self, image: ImageInput) -> ImageClassification:
        """The class of one image.

        Arguments:
            image: a file, or an array (Y, X, C) or (Y, X) uint8; an image of another size is converted.

        Raises:
            InputError: for an image that cannot be read.
        """
        return self.classify_batch([image])[0]

    def classify_batch(self, images: Sequence[ImageInput]) -> list[ImageClassification]:
        """The classes of many images; the answers come in the order of the images.

        Raises:
            InputError: as `classify`, and for an array of one image in place of a list of them.
        """
        if not isinstance(images, list | tuple):
            raise InputError(f"images are a {type(images).__name__}; give a list with one for each, or use classify")
        made: list[ImageClassification] = []
        for start in range(0, len(images), TOGETHER):
            shares = self.probabilities(self.read(images[start : start + TOGETHER]))
            found = [ImageClassification.of(self.task.classes, row) for row in shares.tolist()]
            for watcher in self._watchers():
                watcher.predicted(found, [])
            made += found
        return made

    def read(self, images: Sequence[ImageInput]) -> Images:
        """Images as the input of the model, on its device.

        Raises:
            InputError: as `classify`.
        """
        return batch_of(np.concatenate([frames_of(image, self.task.size) for image in images])).to(self.device)

    def probabilities(self, images: Images) -> Tensor:
        """The probability of every class, (B, classes) float32."""
        with torch.no_grad():
            return check_finite(self.model(images).float(), "these images").softmax(dim=-1).cpu()

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Accuracy, F1 as the mean over classes, and metrics of each class."""
        pixels = cast(ImageStore, data).images[:count]
        right = data.numbers(LABEL)[:count].tolist()
        names = self.task.classes
        predicted = list(self._predicted(pixels))
        scores = classification_scores([names[i] for i in right], [names[i] for i in predicted], names)
        return accuracy_and_f1(right, predicted, len(names)) | by_class(scores.classes)

    def _predicted(self, pixels: np.ndarray) -> Iterator[int]:
        for start in range(0, len(pixels), TOGETHER):
            yield from self.probabilities(batch_of(pixels[start : start + TOGETHER]).to(self.device)).argmax(1).tolist()


def accuracy_and_f1(right: Sequence[int], predicted: Sequence[int], classes: int) -> dict[str, float]:
    """`accuracy` and `f1` (mean over classes); labels and predictions are numbers of classes."""
    scores = classification_scores(right, predicted, range(classes))
    return {"accuracy": scores.accuracy, "f1": scores.macro_f1}


HELD_OUT = 0x1ABE
"""Makes the choice of held-out images independent of other samples with the same seed."""


def prepare_images(
    data: ImageData,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[ImageClassificationTask]:
    """Read the images once, convert them to one size, and write them into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out images, and of training images if `data.size` is set.
        given, given_validation: images in memory instead of those of `data`, in a form that `IMAGES` accepts.

    Raises:
        InputError: for images that cannot be read, or too few of them.
    """

    def write() -> tuple[ImageClassificationTask, list[str]]:
        train, validation = _split(data, seed, given, given_validation)
        for split in (TRAIN, VALIDATION):
            frames_file(folder / split).unlink(missing_ok=True)
        task = _task(data, [*train, *validation])
        notes = []
        for name, examples in ((TRAIN, train), (VALIDATION, validation)):
            writing = _Writing(task, skips=data.on_error == "skip")
            writing.write(folder / name, examples)
            notes += writing.notes()
        return task, notes

    return prepare(ImageClassificationTask, folder, write, store=ImageStore.open)


def _split(
    data: ImageData, seed: int, given: Any, given_validation: Any
) -> tuple[list[LabelledImage], list[LabelledImage]]:
    """The training and validation examples."""
    train = (
        list(read_labelled_images(data.place, data.part, colour=data.colour))
        if given is None
        else IMAGES.in_memory(given)
    )
    order = generator_of(seed, HELD_OUT).permutation(len(train)).tolist()
    read = IMAGES.reader(data, data.validation if given is None else None, given_validation)
    if read is not None:
        validation = list(read(MalformedRows()))
    else:
        held = amount_held_out(len(train), **amount_of(data), what="images")
        validation, order = [train[row] for row in sorted(order[:held])], order[held:]
    if data.size is not None and data.size > len(order):
        raise InputError(
            f"data.size is {data.size:,}, and there are {len(order):,} images to train on; lower it, or leave it out"
        )
    return [train[row] for row in sorted(order[: data.size])], validation


def _task(data: ImageData, examples: Sequence[LabelledImage]) -> ImageClassificationTask:
    classes = tuple(sorted({example.label for example in examples}))
    if len(classes) < 2:
        raise InputError(f"all images are of one class, {', '.join(classes)}; give images of at least two classes")
    height, width, channels = _shape_of(examples, colour=data.colour)
    size = ImageSize(height=data.height or height, width=data.width or width, channels=channels, fit=data.fit)
    return ImageClassificationTask(size=size, classes=classes, shift=data.shift, flip=data.flip)


def _shape_of(examples: Sequence[LabelledImage], *, colour: bool) -> tuple[int, int, int]:
    """Height, width and channels of the first readable image, to which all images are converted."""
    wrong = InputError("there are no images; give some")
    for number, example in enumerate(examples):
        try:
            height, width, channels = frames_as_given(example.image, colour=colour)[0].shape
            return height, width, channels if colour else 1
        except InputError as error:
            wrong = wrong if number else error
    raise wrong


@dataclass(slots=True)
class _Writing:
    """Writes the images and classes of one split, and counts what it leaves out."""

    task: ImageClassificationTask
    skips: bool
    damaged: list[InputError] = field(default_factory=list)

    def write(self, place: Path, examples: Sequence[LabelledImage]) -> None:
        size, labels = self.task.size, list[int]()

        def images() -> Iterator[np.ndarray]:
            for example in examples:
                try:
                    pixels = frames_of(example.image, size)
                except InputError as error:
                    if not self.skips:
                        raise
                    self.damaged.append(error)
                    continue
                labels.append(self.task.number_of(example.label, example.name))
                yield pixels

        count = sum(1 for _ in write_frames(place, images(), (size.height, size.width, size.channels)))
        if count == 0:
            raise self.damaged[0] if self.damaged else InputError(f"there are no {place.name} images; give some")
        TokenStore.write(place, {LABEL: MOST_CLASSES}, ([[label]] for label in labels))

    def notes(self) -> Iterator[str]:
        """Messages for the user about images that were left out."""
        if self.damaged:
            yield f"{len(self.damaged)} images could not be read and were skipped; the first: {self.damaged[0]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageEvaluation(Evaluation):
    """The results of an evaluation: `accuracy`, and `f1`, the mean over classes; `predictions` are `ImageClassification`s.

    Arguments:
        classes: precision, recall and F1 of each class by name.
    """

    classes: dict[str, ClassScore]


def evaluate_images(model: ImageClassifierPredictor, images: Any) -> ImageEvaluation:
    """Compare the classes of images with the predictions of a model.

    Arguments:
        images: `LabelledImage`s, or (image, class).

    Raises:
        InputError: for an empty list, or a class that the model does not have.
    """
    examples = IMAGES.to_measure(images)
    names = model.task.classes
    right = [model.task.number_of(example.label, example.name) for example in examples]
    found = model.classify_batch([example.image for example in examples])
    predicted = [names.index(each.label) for each in found]
    scores = classification_scores([names[i] for i in right], [names[i] for i in predicted], names)
    return ImageEvaluation(
        metrics=accuracy_and_f1(right, predicted, len(names)),
        count=len(examples),
        classes=scores.classes,
        predictions=tuple(found),
    )


def image_record(task: ImageClassificationTask, image: LabelledImage, said: ImageClassification) -> dict[str, Any]:
    """The name of an image, its class and the predicted one."""
    del task
    return {
        "image": image.name,
        "label": image.label,
        "predicted": said.label,
        "probability": said.probability,
        "probabilities": said.probabilities,
    }


def image_classifier_from_hf(folder: Path, config: ViTConfig) -> ImageClassificationTask:
    """The task of a folder that another program wrote: the classes of its config.json, and images of the model's size.

    Images are converted as preprocessor_config.json says.

    Raises:
        InputError: if the classes do not match the model's outputs, or the model is for another problem than one class per image.
    """
    path = folder / "config.json"
    values = read_json_object(path, "copy the file again")
    named, problem = values.get("id2label"), values.get("problem_type")
    if problem not in (None, "single_label_classification"):
        raise InputError(
            f"{path}.problem_type is {problem!r}; for images Regard predicts one class each, which is "
            "'single_label_classification'"
        )
    if config.outputs == 1:
        raise InputError(f"{path}: the model has one output; for images Regard predicts one of two or more classes")
    if named is None:
        classes = tuple(f"LABEL_{number}" for number in range(config.outputs))
    elif not isinstance(named, Mapping) or {str(key) for key in named} != {str(i) for i in range(config.outputs)}:
        raise InputError(f"{path}.id2label does not name the {config.outputs} classes of the model; correct it")
    else:
        classes = tuple(str(named[str(number)]) for number in range(config.outputs))
    if len(set(classes)) != len(classes):  # as in ImageNet, where two classes are called crane
        classes = tuple(
            name if classes.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(classes)
        )
    preprocessor = folder / PREPROCESSOR
    said = read_json_object(preprocessor, "copy the file again") if preprocessor.exists() else {}
    size = ImageSize(
        height=config.image_height,
        width=config.image_width,
        channels=config.image_channels,
        fit="stretch",
        steps=prepared_as(config, said, str(path)).steps,
    )
    return ImageClassificationTask(size=size, classes=classes)


class AnySize(int):
    """A size that is not known yet; its type distinguishes it from a user's size, which is checked against a maximum."""


ANY_SIDE = AnySize(math.lcm(*range(1, 65)) << 8)
"""A side in pixels that is divisible by every usual patch size, and by 2 more often than any model halves it."""

IMAGE_CLASSIFICATION = TaskSpec(
    task=ImageClassificationTask,
    predictor=ImageClassifierPredictor,
    interface="image_classifier",
    sections={"data": ImageData},
    prepare=prepare_images,
    evaluate=evaluate_images,
    examples=IMAGES,
    read=read_images,
    record=image_record,
    derived_config={"image_height": ANY_SIDE, "image_width": ANY_SIDE, "image_channels": 1, "outputs": 2},
    from_hf=image_classifier_from_hf,
)
