"""The effect of attention in the lectures' network for MNIST."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.labelled_images import LabelledImage, read_labelled_images
from regard.models import LectureNetwork
from regard.models.lecture_network import without_queries_and_keys
from regard.tasks.image_classification import ImageBatch, ImageClassifierPredictor, evaluate_images
from regard.tasks.loading import load
from regard_claims.shared import check_counts, trained

TOGETHER = 500
"""The number of images in a batch of the test."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InactiveAttention:
    """The lectures' network, trained with or without its query and key projections, and the effect of these projections.

    Arguments:
        path: a folder with MNIST's files. None: scikit-learn's digits.
        attention: `given` for the network as it is, or `deleted` for one without query and key projections from the start.
        epochs: the number of passes over the training images.
        batch: the number of images in an update.
        learning_rate: the learning rate of Adam.

    Raises:
        InputError: for a number below its minimum.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    attention: Literal["given", "deleted"] = "given"
    epochs: int = 5
    batch: int = 32
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "batch")

    @property
    def measures(self) -> tuple[str, ...]:
        """The accuracy in per cent, and measures of the effect of queries and keys, which are 0 for `deleted`."""
        return (
            "accuracy",
            "largest change by deletion",
            "largest difference from the values",
            "largest gradient of queries and keys",
            "largest gradient of values",
            "parameters of queries and keys",
        )

    def run(self, seed: int) -> dict[str, float]:
        """Train the network, and measure the effect of its queries and keys on test images.

        Raises:
            InputError: for a folder without MNIST's files.
        """
        test = read_labelled_images(self.path, "test", colour=False)
        with trained(
            "image_classification",
            {"name": "lecture_network", "query_and_key": self.attention == "given"},
            read_labelled_images(self.path, "train", colour=False),
            seed=seed,
            training={
                "epochs": self.epochs,
                "batch_tokens": self.batch,
                "optimizer": "adam",
                "betas": [0.9, 0.999],
                "epsilon": 1e-8,
                "learning_rate": self.learning_rate,
                "schedule": "constant",
                "warmup": 0,
                "clip_norm": None,
            },
        ) as folder:
            model = load(folder, task="image_classification")
            found: dict[str, float] = dict.fromkeys(self.measures, 0.0)
            found["accuracy"] = 100 * evaluate_images(model, test).metrics["accuracy"]
            if self.attention == "given":
                found |= _inactivity(model, test)
            return found


def _inactivity(model: ImageClassifierPredictor, test: Sequence[LabelledImage]) -> dict[str, float]:
    """The largest effects of the query and key projections on logits, attention outputs and gradients, over all test images."""
    network: LectureNetwork = model.model
    reduced = without_queries_and_keys(network)
    largest = {"logits": 0.0, "values": 0.0, "query or key": 0.0, "value": 0.0}
    for batch in _batches(model, test):
        network.zero_grad()
        with torch.no_grad():
            change = network(batch.images) - reduced(batch.images)
            largest["logits"] = max(largest["logits"], _largest(change))
        with _Values(network) as seen:
            F.cross_entropy(network(batch.images), batch.labels).backward()
        largest["values"] = max(largest["values"], *map(_largest, seen.differences))
        for name, parameter in network.named_parameters():
            if parameter.grad is not None and "attentions" in name:
                kind = "value" if ".value." in name else "query or key"
                largest[kind] = max(largest[kind], _largest(parameter.grad))
    count = sum(
        parameter.numel() for name, parameter in network.named_parameters() if ".query." in name or ".key." in name
    )
    return {
        "largest change by deletion": largest["logits"],
        "largest difference from the values": largest["values"],
        "largest gradient of queries and keys": largest["query or key"],
        "largest gradient of values": largest["value"],
        "parameters of queries and keys": count,
    }


class _Values:
    """A context manager that records the difference between each attention layer's output and its value projection."""

    def __init__(self, network: LectureNetwork) -> None:
        self._network = network
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []
        self.differences: list[Tensor] = []

    def __enter__(self) -> _Values:
        self._hooks = [layer.register_forward_hook(self._compare) for layer in self._network.attentions]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _compare(self, layer: torch.nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        value: torch.nn.Module = layer.value  # type: ignore[assignment]
        self.differences.append((output - value(arguments[0])).detach())


def _batches(model: ImageClassifierPredictor, test: Sequence[LabelledImage]) -> Iterator[ImageBatch]:
    for start in range(0, len(test), TOGETHER):
        some = test[start : start + TOGETHER]
        labels = [model.task.number_of(each.label, each.name) for each in some]
        yield ImageBatch(model.read([each.image for each in some]), torch.tensor(labels)).to(model.device)


def _largest(tensor: Tensor) -> float:
    return float(tensor.abs().max())
