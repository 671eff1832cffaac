"""What a command says: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable
from typing import Any


def speaking() -> bool:
    """Whether this process speaks to the user: of those that torchrun starts only the first does."""
    return os.environ.get("RANK", "0") == "0"


def say(sentence: str) -> None:
    """A sentence for the user, on standard error."""
    if speaking() and sys.stderr is not None:
        print(sentence, file=sys.stderr, flush=True)


def on_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False where there is none."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def print_json(value: Any) -> None:
    """One object on standard output; numbers that JSON does not know (NaN, infinities) become null."""
    if speaking():
        print(json.dumps(_finite(value), ensure_ascii=False, indent=2))


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Names and what they are, in two columns on standard output."""
    rows = list(rows)
    if speaking() and rows:
        width = max(len(name) for name, _ in rows)
        print("\n".join(f"{name:<{width}}  {text}".rstrip() for name, text in rows))


WORDS = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "f1": "F1",
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
    if metric.endswith(("accuracy", "_match")) or metric in ("f1", "chance"):
        number = f"{100 * value:.2f} %"
    else:
        number = f"{value:.1f}" if metric in OF_A_HUNDRED else f"{value:.4g}"
    return f"{words} {language.replace('_', ' ')}".rstrip(), number


def one_line(text: str) -> str:
    r"""A message on one line, with nothing in it that would act on the terminal.

    >>> one_line("a file\n  called \x1b[31mred")
    'a file called \\x1b[31mred'
    """
    joined = " ".join(line.strip() for line in text.splitlines())
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in joined)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
