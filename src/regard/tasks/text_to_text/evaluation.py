"""How good a text-to-text model is: what it writes, compared with references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.language_modelling.writer import Written
from regard.tasks.text_to_text.examples import in_memory
from regard.tasks.text_to_text.metrics import measured
from regard.tasks.text_to_text.text_to_text import TextToText


@dataclass(frozen=True, kw_only=True, slots=True)
class TextToTextEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `exact_match`, `normalized_match`, `f1`, `position_accuracy` in [0, 1]; `bleu`, `chrf`, `rouge1`, `rouge2`,
            `rougeL` in [0, 100]; `length_ratio`. Which of them says something depends on the texts: BLEU of translations,
            ROUGE of summaries, matches and F1 of answers.
        signatures: what sacreBLEU says of how it computed each.
        count: examples.
        cut: sources of which only the beginning was read.
        predictions: what was written for each.
        note: what could not be computed and why; empty where all was.
    """

    metrics: dict[str, float]
    signatures: dict[str, str]
    count: int
    cut: int
    predictions: tuple[Written, ...] = field(repr=False, default=())
    note: str = ""


def evaluate_text_to_text(
    model: TextToText,
    examples: Sequence[object],
    settings: GenerationSettings | None = None,
    *,
    part: str | None = None,
    batch_size: int = 64,
) -> TextToTextEvaluation:
    """Write for each source and compare with the targets.

    Arguments:
        examples: (source, target), or (source, several right targets).
        settings: how to decode; the folder's own where None.
        part: the part of a mixture whose prefix is put in front, as in `TextToText.generate`.
        batch_size: texts decoded together.

    Raises:
        InputError: for an empty list, or a part that is not there.
    """
    if isinstance(examples, str) or not examples:
        raise InputError("there is nothing to evaluate; give at least one pair")
    read = [in_memory(each, number) for number, each in enumerate(examples, start=1)]
    sources = [each.source for each in read]
    written: list[Written] = model.generate(sources, settings, part=part, batch_size=batch_size, cut=True)
    metrics, signatures, note = measured(
        [each.text for each in written], [each.targets for each in read], model.task.tokenizer
    )
    return TextToTextEvaluation(
        metrics=metrics,
        signatures=signatures,
        count=len(read),
        cut=_cut(model, sources, part),
        predictions=tuple(written),
        note=note,
    )


def _cut(model: TextToText, sources: Sequence[str], part: str | None) -> int:
    """How many sources are longer than what is read of them."""
    before, limit = model.task.prefix_of(part), model.longest
    if limit is None:
        return 0
    return sum(len(ids) + 1 > limit for ids in model.task.tokenizer.encode_batch([before + each for each in sources]))
