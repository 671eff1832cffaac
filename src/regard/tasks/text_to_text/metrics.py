"""Metrics of written texts against references, whatever the texts are."""

from __future__ import annotations

from collections.abc import Sequence

from regard.metrics.answers import exact_match, rouge_scores, token_f1
from regard.tasks.translation.metrics import compared
from regard.text import Tokenizer


def measured(
    texts: Sequence[str], references: Sequence[Sequence[str]], tokenizer: Tokenizer
) -> tuple[dict[str, float], dict[str, str], str]:
    """Metrics of texts, sacreBLEU's signatures, and a note on what could not be computed.

    Arguments:
        references: the right texts of each, one at least. BLEU, chrF, position accuracy and length are of the first alone.
        tokenizer: of the references.

    Returns:
        `exact_match`, the share of texts that are one of their references; `normalized_match` and `f1`, the same and the
        overlap in words as SQuAD's script compares answers; `bleu`, `chrf`, `position_accuracy` and `length_ratio` as for
        translation; `rouge1`, `rouge2` and `rougeL`.
    """
    metrics, signatures, note = compared(texts, [right[0] for right in references], tokenizer)
    pairs = list(zip(texts, references, strict=True))
    metrics["exact_match"] = sum(text in right for text, right in pairs) / len(pairs)
    metrics["normalized_match"] = sum(exact_match(right, text) for text, right in pairs) / len(pairs)
    metrics["f1"] = sum(token_f1(right, text) for text, right in pairs) / len(pairs)
    try:
        metrics |= rouge_scores(texts, references)
    except ImportError:
        note = "; ".join(filter(None, [note, "ROUGE needs rouge-score: pip install 'regard[eval]'"]))
    return metrics, signatures, note
