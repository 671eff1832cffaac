"""Metrics of texts against references."""

from __future__ import annotations

from collections.abc import Sequence

from regard.parts import own_scores
from regard.text import Tokenizer


def compared(
    texts: Sequence[str], references: Sequence[str], tokenizer: Tokenizer
) -> tuple[dict[str, float], dict[str, str], str]:
    """Metrics of texts against references, sacreBLEU's signatures, and a note on what could not be computed.

    Arguments:
        tokenizer: of the references, for `position_accuracy`.
    """
    same, places = 0, 0
    for text, reference in zip(tokenizer.encode_batch(texts), tokenizer.encode_batch(references), strict=True):
        same += sum(map(int.__eq__, text, reference))
        places += max(len(text), len(reference))
    metrics = {
        "exact_match": sum(map(str.__eq__, texts, references)) / len(texts),
        "position_accuracy": same / max(1, places),
    }
    signatures: dict[str, str] = {}
    note = ""
    try:
        from sacrebleu.metrics import BLEU, CHRF  # type: ignore[attr-defined]
    except ImportError:
        note = "BLEU and chrF need sacrebleu: pip install 'regard[eval]'"
    else:
        # sacreBLEU would warn at each validation, and of a parameter that nobody can set from here.
        for name, metric in (("bleu", BLEU(tokenize="13a", force=True)), ("chrf", CHRF())):
            metrics[name] = metric.corpus_score(texts, [references]).score
            signatures[name] = str(metric.get_signature())
        if 2 * sum(text.endswith(" .") for text in texts) > len(texts):
            note = (
                "most texts end in a full stop behind a space: of tokenised text BLEU is not what it is of plain text"
            )
    words = sum(len(text.split()) for text in texts)
    metrics["length_ratio"] = words / max(1, sum(len(text.split()) for text in references))
    return metrics | own_scores("translation", texts, references), signatures, note
