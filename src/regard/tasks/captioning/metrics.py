"""Metrics of captions against several right ones each."""

from __future__ import annotations

from collections.abc import Sequence


def compared(texts: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[dict[str, float], dict[str, str], str]:
    """Metrics of captions, sacreBLEU's signatures, and a note on what could not be computed.

    `exact_match` in [0, 1] is the share of captions that are one of their references, word for word; `bleu` and `chrf` in
    [0, 100] are of the corpus, against all references.

    Arguments:
        texts: the captions, one at least.
        references: of each its right ones, one at least.
    """
    metrics = {
        "exact_match": sum(
            text.split() in [right.split() for right in rights] for text, rights in zip(texts, references, strict=True)
        )
        / len(texts)
    }
    try:
        from sacrebleu.metrics import BLEU, CHRF  # type: ignore[attr-defined]
    except ImportError:
        return metrics, {}, "BLEU and chrF need sacrebleu: pip install 'regard[eval]'"
    most = max(map(len, references))
    # A column for the first reference of each, one for the second, and so on; None where there are fewer.
    columns = [[rights[i] if i < len(rights) else None for rights in references] for i in range(most)]
    signatures: dict[str, str] = {}
    # Captions are commonly kept with a space before their full stop; `force` keeps sacreBLEU from warning each time.
    for name, metric in (("bleu", BLEU(tokenize="13a", force=True)), ("chrf", CHRF())):
        metrics[name] = metric.corpus_score(list(texts), columns).score  # type: ignore[arg-type]
        signatures[name] = str(metric.get_signature())
    return metrics, signatures, ""
