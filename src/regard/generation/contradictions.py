"""Settings of decoding that cannot stand together, or do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.generation.settings import GenerationSettings

OF_SAMPLING: Mapping[str, object] = MappingProxyType({"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None})
"""Settings that only change what is drawn, each with the value that changes nothing."""

OF_SINGLE_TEXTS: Mapping[str, object] = MappingProxyType(
    {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": ()}
)
"""Settings that change which token is the best, likewise. A beam ranks by the model's own probabilities, and they change no
probability."""


def check_together(settings: GenerationSettings) -> None:
    """Refuse settings that contradict each other.

    Raises:
        InputError: field, value and what to give instead.
    """
    maximum, minimum = settings.maximum_length, settings.minimum_length
    if maximum is not None and minimum > maximum:
        raise InputError(
            f"generation.minimum_length: {minimum} is more than maximum_length {maximum}; lower the one or raise the other"
        )
    if settings.sample:
        _check_sampling(settings)
    else:
        _check_searching(settings)


def _check_sampling(settings: GenerationSettings) -> None:
    if settings.beam > 1:
        raise InputError(
            f"generation.sample: sampling keeps no beam, but beam is {settings.beam}; set beam to 1, or sample to false"
        )
    if settings.coverage_penalty > 0:
        raise InputError(
            "generation.coverage_penalty: samples are not ranked by coverage; set it to 0, or sample to false"
        )


def _check_searching(settings: GenerationSettings) -> None:
    if settings.n_best > settings.beam:
        raise InputError(
            f"generation.n_best: {settings.n_best} is more than the beam of {settings.beam}; lower n_best or raise beam"
        )
    for field, unused in OF_SAMPLING.items():
        if getattr(settings, field) != unused:
            raise InputError(f"generation.{field}: it only matters when sampling; set sample to true, or leave it out")
    if settings.beam == 1 and settings.coverage_penalty == 0:
        return
    for field, unused in OF_SINGLE_TEXTS.items():
        if getattr(settings, field) != unused:
            raise InputError(
                f"generation.{field}: a beam, and coverage, rank texts by the model's own probabilities; set beam to 1 and "
                "coverage_penalty to 0, or leave it out"
            )
