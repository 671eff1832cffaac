"""A trained model that another one learns from (Sanh et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.nn.functional as F
from torch import nn

from regard.checkpoints import located, read_config, read_model
from regard.errors import InputError
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.masked_language_modelling.divergence import divergence
from regard.tasks.masked_language_modelling.teacher_settings import TeacherSettings
from regard.tasks.task import LossSum

if TYPE_CHECKING:
    from regard.tasks.masked_language_modelling.task import MaskedBatch

HEADS = ("masked", "pretraining")


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A teacher with what is to be learnt from it: read once, never trained, never saved with its student.

    Arguments:
        model: a `TextEncoder` with a head over the vocabulary, in evaluation mode.
        settings: temperature and weights.
    """

    model: Any
    settings: TeacherSettings

    @classmethod
    def read(cls, settings: TeacherSettings) -> Self:
        """The teacher in the folder that the settings name.

        Raises:
            InputError: where there is no masked language model in it.
        """
        place = teacher_folder(settings)
        config = read_config(place)
        if getattr(config, "head", None) not in HEADS:
            raise InputError(
                f"data.teacher.folder: {settings.folder} holds no masked language model; give one, such as a run of this task"
            )
        return cls(read_model(place).requires_grad_(False), settings)

    def check(self, student: Any, maximum_length: int) -> None:
        """Refuse a student that cannot learn from this teacher.

        Raises:
            InputError: for another vocabulary or width, or inputs that are longer than the teacher has positions for.
        """
        where, own, theirs = f"data.teacher.folder: {self.settings.folder}", student.config, self.model.config
        if own.vocabulary != theirs.vocabulary:
            raise InputError(
                f"{where} has {theirs.vocabulary:,} tokens and the student {own.vocabulary:,}; both must have one tokenizer, so "
                "leave tokenizer.path out"
            )
        if self.settings.cosine_weight and own.width != theirs.width:
            raise InputError(
                f"{where} is {theirs.width} wide and the student {own.width}, so their vectors cannot be compared; set "
                f"data.teacher.cosine_weight=0, or model.width={theirs.width}"
            )
        if maximum_length > theirs.maximum_positions:
            raise InputError(
                f"{where} has {theirs.maximum_positions} positions where data.maximum_length is {maximum_length}; lower it"
            )

    def loss(self, student: nn.Module, batch: MaskedBatch, *, smoothing: float = 0.0) -> LossSum:
        """The three losses of distillation, each summed over its labels and weighed.

            a T^2 KL(teacher || student)  +  b L_masked  +  c (1 - cos(h_student, h_teacher))

        The first is over all real tokens, or the hidden ones; the last over all real tokens. The teacher reads the very batch
        that the student reads, hidden tokens and all.
        """
        settings, tokens = self.settings, batch.tokens
        real = tokens.valid.flatten()
        places = batch.at if settings.at_masked else real.nonzero().squeeze(1)
        self.model.to(tokens.ids.device)
        with torch.no_grad():
            taught = self.model(tokens, batch.segments, at=places)
        learnt = student(tokens, batch.segments, at=places)
        hidden = learnt.logits if settings.at_masked else learnt.logits[(real.cumsum(0) - 1)[batch.at]]
        masked, right = smoothed_cross_entropy(hidden, batch.labels, smoothing=smoothing)
        apart = divergence(learnt.logits, taught.logits, temperature=settings.temperature)
        none = torch.zeros_like(right)  # neither is right or wrong
        weight = settings.divergence_weight * settings.temperature**2
        beside = {"divergence": LossSum(weight * apart, len(places), none)}
        if settings.cosine_weight:
            vectors = [encoded.hidden.flatten(0, 1)[real].float() for encoded in (learnt, taught)]
            away = (1 - F.cosine_similarity(vectors[0], vectors[1], dim=-1)).sum()
            beside["cosine"] = LossSum(settings.cosine_weight * away, len(vectors[0]), none)
        return LossSum(settings.masked_weight * masked, len(batch.labels), right, beside)


def teacher_folder(settings: TeacherSettings) -> Path:
    """The folder of the teacher's model: of a run, its best checkpoint's.

    Raises:
        InputError: where there is no model.
    """
    from regard.tasks.loading import model_folder

    return model_folder(located(settings.folder))
