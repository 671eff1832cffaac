"""Distillation: learn the predictions of a larger model for each token (Sanh et al. 2019), and the divergence to minimise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from regard.checkpoints import located, read_config, read_model
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.task import LossSum

if TYPE_CHECKING:
    from regard.tasks.masked_language_modelling import MaskedBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherSettings:
    """The `data.teacher` section of a recipe: distillation (Sanh et al. 2019), by default with the published settings.

        loss = divergence_weight T^2 KL(teacher || student) + masked_weight L_masked + cosine_weight (1 - cos(h, h_teacher))

    Arguments:
        folder: the folder of the teacher, a trained masked language model.
        temperature: T, by which the logits of teacher and student are divided.
        divergence_weight: the weight of the first term.
        masked_weight: the weight of the loss of the masked tokens.
        cosine_weight: the weight of the last term, over the last layer's vectors of all tokens; 0 for a student of another
            width.
        at_masked: whether the first term is over the masked tokens only, not over all tokens.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    folder: str
    temperature: float = 2.0
    divergence_weight: float = 5.0
    masked_weight: float = 2.0
    cosine_weight: float = 1.0
    at_masked: bool = False

    def __post_init__(self) -> None:
        check(self.temperature > 0, "data.teacher.temperature", self.temperature, "above 0", "2 is usual")
        for name in ("divergence_weight", "masked_weight", "cosine_weight"):
            value = getattr(self, name)
            check(value >= 0, f"data.teacher.{name}", value, "0 or more", "leave it out for the published one")


BLOCK = 250_000
"""The number of logits in one block of the computation, which fits into a processor's cache."""


def divergence(student: Tensor, teacher: Tensor, *, temperature: float = 1.0) -> Tensor:
    """The Kullback-Leibler divergence of a student's distributions from its teacher's, summed over rows (Hinton et al. 2015).

        KL(p || q) = sum_v p_v (log p_v - log q_v),   p = softmax(z_teacher / T),   q = softmax(z_student / T)

    Its gradient with respect to the student's logits is (q - p) / T, so it is usually multiplied by T^2. It is computed in blocks
    of rows, in float32 (float64 for float64 logits), together with its gradient.

    Arguments:
        student, teacher: (N, V), logits of any floating dtype; no gradient flows into the teacher.
        temperature: T.

    Returns:
        A scalar, the sum; float32, float64 for float64 logits.

    >>> logits = torch.tensor([[1.0, 2.0, 3.0]])
    >>> divergence(logits, logits + 5, temperature=2.0).item()
    0.0
    """
    return _Divergence.apply(student, teacher.detach(), temperature)  # type: ignore[no-any-return]


class _Divergence(torch.autograd.Function):
    """The sum of `divergence` with its gradient, computed block by block."""

    @staticmethod
    def forward(ctx: FunctionCtx, student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        wide = torch.float64 if student.dtype == torch.float64 else torch.float32
        total = student.new_zeros((), dtype=wide)
        wanted = ctx.needs_input_grad[0]  # type: ignore[attr-defined]
        gradient = torch.empty_like(student) if wanted else None
        rows = max(1, BLOCK // student.shape[1])
        for start in range(0, student.shape[0], rows):
            block = slice(start, start + rows)
            # In place, with few passes over the numbers, because the vocabulary is large.
            own, right = (z[block].to(wide, copy=True).div_(temperature) for z in (student, teacher))
            for z in (own, right):
                z.sub_(z.amax(dim=1, keepdim=True))
            apart = right - own
            own_sum, right_sum = own.exp_().sum(dim=1, keepdim=True), right.exp_().sum(dim=1, keepdim=True)
            p = right.div_(right_sum)
            total += apart.mul_(p).sum() + (own_sum.log() - right_sum.log()).sum()
            if gradient is not None:
                gradient[block] = own.div_(own_sum).sub_(p).div_(temperature)
        if gradient is not None:
            ctx.save_for_backward(gradient)  # type: ignore[attr-defined]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient.mul_(upstream.to(gradient.dtype)), None, None


HEADS = ("masked", "pretraining")


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A teacher and the losses of its student. It is not trained, and not saved with the student.

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
            InputError: if there is no masked language model in it.
        """
        place = teacher_folder(settings)
        config = read_config(place)
        if getattr(config, "head", None) not in HEADS:
            raise InputError(
                f"data.teacher.folder: {settings.folder} has no masked language model; give one, such as a run of this task"
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
                f"{where} has {theirs.vocabulary:,} tokens and the student {own.vocabulary:,}; both must have the same "
                "tokenizer, so leave tokenizer.path out"
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
        """The three losses of distillation, each summed over its labels and multiplied by its weight.

            a T^2 KL(teacher || student)  +  b L_masked  +  c (1 - cos(h_student, h_teacher))

        The first is over all real tokens, or over the masked ones; the last is over all real tokens. The teacher reads the same
        batch with the same masked tokens as the student.
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
        none = torch.zeros_like(right)  # these losses have no correct predictions to count
        weight = settings.divergence_weight * settings.temperature**2
        auxiliary = {"divergence": LossSum(weight * apart, len(places), none)}
        if settings.cosine_weight:
            vectors = [encoded.hidden.flatten(0, 1)[real].float() for encoded in (learnt, taught)]
            away = (1 - F.cosine_similarity(vectors[0], vectors[1], dim=-1)).sum()
            auxiliary["cosine"] = LossSum(settings.cosine_weight * away, len(vectors[0]), none)
        return LossSum(settings.masked_weight * masked, len(batch.labels), right, auxiliary)


def teacher_folder(settings: TeacherSettings) -> Path:
    """The folder of the teacher's model; for a run, its best checkpoint.

    Raises:
        InputError: if there is no model.
    """
    from regard.tasks.loading import model_folder

    return model_folder(located(settings.folder))
