"""How good a translator is: exact match, BLEU and chrF against references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.translation import Translation, Translator


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What an evaluation found.

    Arguments:
        metrics: `exact_match` in [0, 1]; `bleu` and `chrf` in [0, 100] as sacreBLEU computes them; `length_ratio`, words of the
            output over words of the reference.
        signatures: what sacreBLEU says of how it computed each.
        count: pairs.
        translations: one for each pair.
        note: what could not be computed and why; empty where all was.
    """

    metrics: dict[str, float]
    signatures: dict[str, str]
    count: int
    translations: tuple[Translation, ...] = field(repr=False, default=())
    note: str = ""


def evaluate(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    settings: GenerationSettings | None = None,
    *,
    batch_size: int = 64,
) -> Evaluation:
    """Translate the sources and compare with the targets.

    BLEU is sacreBLEU's: cased, tokenised by `13a`, on the plain output. Without sacrebleu installed exact match is given alone.

    Raises:
        InputError: for an empty list.
    """
    if not pairs:
        raise InputError("there is nothing to evaluate; give at least one pair")
    translations = translator.translate_batch([source for source, _ in pairs], settings, batch_size=batch_size)
    texts, references = [t.text for t in translations], [target for _, target in pairs]
    metrics = {"exact_match": sum(map(str.__eq__, texts, references)) / len(pairs)}
    signatures: dict[str, str] = {}
    note = ""
    try:
        from sacrebleu.metrics import BLEU, CHRF  # type: ignore[attr-defined]
    except ImportError:
        note = "BLEU and chrF need sacrebleu: pip install 'regard[eval]'"
    else:
        for name, metric in (("bleu", BLEU(tokenize="13a")), ("chrf", CHRF())):
            metrics[name] = metric.corpus_score(texts, [references]).score
            signatures[name] = str(metric.get_signature())
    words = sum(len(text.split()) for text in texts)
    metrics["length_ratio"] = words / max(1, sum(len(text.split()) for text in references))
    return Evaluation(
        metrics=metrics,
        signatures=signatures,
        count=len(pairs),
        translations=tuple(translations),
        note=note,
    )
