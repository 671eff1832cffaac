"""Results as people read them: names and values in two columns, as text and in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

Rows = Sequence[tuple[str, str]]

WORDS = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "f1": "F1",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
}
"""How people write the names of metrics, where it is otherwise than with spaces."""

OF_A_HUNDRED = ("bleu", "chrf", "rouge1", "rouge2", "rougeL")


def metric_text(name: str, value: float) -> tuple[str, str]:
    """A metric's name and value as people write them.

    >>> metric_text("exact_match", 0.9955), metric_text("bleu", 36.04), metric_text("loss", 0.12345)
    (('exact match', '99.55 %'), ('BLEU', '36.0'), ('loss', '0.1235'))
    >>> metric_text("bleu.de", 36.04)  # of one language among several
    ('BLEU de', '36.0')
    """
    metric, _, language = name.partition(".")
    words = WORDS.get(metric, metric.replace("_", " "))
    if metric.endswith(("accuracy", "_match")) or metric in ("f1", "micro_f1", "macro_f1", "chance"):
        number = f"{100 * value:.2f} %"
    else:
        number = f"{value:.1f}" if metric in OF_A_HUNDRED else f"{value:.4g}"
    return f"{words} {language.replace('_', ' ')}".rstrip(), number


def text_table(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, in two columns of plain text.

    >>> print(text_table([("steps", "500"), ("seconds", "12.0")]))
    steps    500
    seconds  12.0
    """
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {text}".rstrip() for name, text in rows)


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """The same as a table of HTML, for a notebook's `_repr_html_`.

    >>> html_table([("loss", "< 1")])
    '<table><tbody><tr><th style="text-align:left">loss</th><td style="text-align:left">&lt; 1</td></tr></tbody></table>'
    """
    left = 'style="text-align:left"'
    lines = (f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>" for name, text in rows)
    return f"<table><tbody>{''.join(lines)}</tbody></table>"
