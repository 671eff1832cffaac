"""How often a few-shot learner tells the class, on alphabets it has not seen."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard.data.characters import Characters, digit_characters, read_characters
from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.layers.output import check_finite
from regard.tasks.few_shot.data import FewShotData
from regard.tasks.few_shot.few_shot_classifier import FewShotClassifier
from regard.tasks.few_shot.preparation import HELD_OUT, write_pictures

TOGETHER = 64
"""Episodes read together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `loss`, the mean of -log p of the right class, natural log; `accuracy`, the share of classes that were told.
        count: episodes.
        predictions: for each episode the label that was told, and the right one.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Asked, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What became of one episode.

    Arguments:
        character: the picture that was asked about, by its class.
        right: whether its class was told.
    """

    character: str
    right: bool


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One picture to be asked about, among all of its set.

    Arguments:
        characters: the set.
        picture: its number.
    """

    characters: Characters
    picture: int


def evaluate_episodes(model: FewShotClassifier, questions: Sequence[Question]) -> EpisodeEvaluation:
    """Ask about pictures, each in an episode of its own, drawn from the pictures of its set; always the same.

    Arguments:
        questions: of one set of characters, such as `read_episodes` gives.

    Raises:
        InputError: for none, or too few characters to draw episodes from.
    """
    if not questions:
        raise InputError("there is nothing to evaluate; give at least one question")
    task, characters = model.task, questions[0].characters
    losses, right = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = write_pictures(Path(folder) / "pictures", characters)
        reason = task.episodes(store).too_few
        if reason:
            raise InputError(f"the pictures: {reason}; give more")
        for start in range(0, len(questions), TOGETHER):
            rows = [question.picture for question in questions[start : start + TOGETHER]]
            batch = task.read_batch(store, rows).to(model.device)
            with torch.no_grad():
                logits = check_finite(model.model(batch.pictures, batch.labels).float(), "these pictures")
                shares = logits.log_softmax(dim=-1)
            losses += (-shares.gather(-1, batch.asked[..., None])).flatten().tolist()
            right += (shares.argmax(dim=-1) == batch.asked).flatten().tolist()
    names = [characters.names[characters.classes[question.picture]] for question in questions]
    return EpisodeEvaluation(
        metrics={"loss": sum(losses) / len(losses), "accuracy": sum(right) / len(right)},
        count=len(questions),
        predictions=tuple(Asked(character=name, right=told) for name, told in zip(names, right, strict=True)),
    )


def read_episodes(data: FewShotData, malformed: MalformedRows) -> Iterator[Question]:
    """A question about every picture of the alphabets that `data` names, in an order that is always the same.

    Of builtin data the digits that are held out.
    """
    del malformed
    if data.builtin is not None:
        characters = digit_characters(HELD_OUT, side=data.side)
    else:
        characters = read_characters(data.place, data.alphabets, side=data.side)
    order = np.random.Generator(np.random.Philox(key=[0, 0xA1FA])).permutation(len(characters))
    return (Question(characters, int(picture)) for picture in order)
