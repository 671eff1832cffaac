"""Whom a model learns from, and how much of it, as data."""

from __future__ import annotations

from dataclasses import dataclass

from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherSettings:
    """The `data.teacher` section of a recipe: distillation (Sanh et al. 2019); the defaults are the published ones.

        loss = divergence_weight T^2 KL(teacher || student) + masked_weight L_masked + cosine_weight (1 - cos(h, h_teacher))

    Arguments:
        folder: of the teacher, a trained masked language model.
        temperature: T, by which the logits of both are divided.
        divergence_weight: of the first term.
        masked_weight: of the loss of the hidden tokens.
        cosine_weight: of the last term, over the last layer's vectors of all tokens; 0 for a student of another width.
        at_masked: whether the first term is over the hidden tokens only, not over all.

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
