"""How good a captioner is: exact match, BLEU and chrF against references, and whether it looks at what it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data.scenes import Scene
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.captioning.captioner import Caption, Captioner
from regard.tasks.captioning.examples import CaptionExample, example_of, in_memory, in_tokens
from regard.tasks.captioning.metrics import compared
from regard.tasks.captioning.pointing import Pointing, in_batches, pointed


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `exact_match` in [0, 1]; `bleu` and `chrf` in [0, 100] as sacreBLEU computes them, against all references. Of a
            model with attention `uncovered`, how far the weights on a place are from summing to one, and, where it is known where
            things are, `pointing` in [0, 1], the share of tokens that name one whose largest weight is in it.
        signatures: what sacreBLEU says of how it computed each.
        count: pictures.
        captions: one for each picture.
        note: what could not be computed and why; empty where all was.
    """

    metrics: dict[str, float]
    signatures: dict[str, str]
    count: int
    captions: tuple[Caption, ...] = field(repr=False, default=())
    note: str = ""


def evaluate(
    captioner: Captioner,
    examples: Sequence[CaptionExample | Scene | tuple[Any, Any] | Mapping[str, Any]],
    settings: GenerationSettings | None = None,
    *,
    batch_size: int = 64,
) -> CaptionEvaluation:
    """Caption the pictures and compare with the references.

    Arguments:
        examples: pictures with one or more captions, as training takes them, or builtin scenes.
        settings: how to decode; the folder's own where None.
        batch_size: pictures read together.

    Raises:
        InputError: for an empty list, or a picture that cannot be read.
    """
    if not examples:
        raise InputError("there is nothing to evaluate; give at least one picture with a caption")
    rows = [example_of(example) if isinstance(example, Scene) else example for example in examples]
    given = in_memory(rows, "evaluation")
    captions = captioner.caption_batch([example.picture for example in given], settings, batch_size=batch_size)
    metrics, signatures, note = compared(
        [caption.text for caption in captions],
        [[_as_written(text, captioner) for text in example.captions] for example in given],
    )
    if captioner.model.has_alignment:
        metrics |= _pointing(captioner, given, batch_size).metrics()
    return CaptionEvaluation(
        metrics=metrics, signatures=signatures, count=len(given), captions=tuple(captions), note=note
    )


def _as_written(text: str, captioner: Captioner) -> str:
    """A reference as the model could write it: in lower case where its tokenizer reads no other."""
    encode, lower = captioner.task.tokenizer.encode, text.lower()
    return lower if encode(text) == encode(lower) else text


def _pointing(captioner: Captioner, examples: Sequence[CaptionExample], batch_size: int) -> Pointing:
    """Where the model looks while it is given the first caption of each."""
    total = Pointing()
    for rows in in_batches(len(examples), batch_size):
        chosen = [examples[row] for row in rows]
        batch = captioner.teacher_forced([(example.picture, example.captions[0]) for example in chosen])
        named = [
            [in_tokens(each, example.captions[0], captioner.task.tokenizer) for each in example.named]
            for example in chosen
        ]
        total += pointed(captioner.model, batch, named)
    return total
