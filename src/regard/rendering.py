"""Results as people read them: names and values in two columns of text; tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

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

WIDEST = 100_000
"""Characters of a line, where nothing is to be cut."""

_GIBIBYTE = 1 << 30

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


OF_EACH_CLASS = ("precision", "recall", "f1")


def metric_rows(metrics: Mapping[str, float], words: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """A row for each metric, and one for all that is said of a class.

    Arguments:
        words: what to call metrics, where it is otherwise than usual.

    >>> metric_rows({"f1": 0.5, "precision.spam": 1.0, "recall.spam": 0.3333, "f1.spam": 0.5}, {"f1": "F1 of spam"})
    [('F1 of spam', '50.00 %'), ('  spam', 'precision 1.000, recall 0.333, F1 0.500')]
    """
    called = words or {}
    names = [name.partition(".")[2] for name in metrics if name.startswith(f"{OF_EACH_CLASS[0]}.")]
    whole = [name for name in names if all(f"{metric}.{name}" in metrics for metric in OF_EACH_CLASS)]
    shown = {f"{metric}.{name}" for name in whole for metric in (*OF_EACH_CLASS, "examples")}
    rows = []
    for name, value in metrics.items():
        if name not in shown:
            usual, number = metric_text(name, value)
            rows.append((called.get(name, usual), number))
    for name in whole:
        precision, recall, f1 = (metrics[f"{metric}.{name}"] for metric in OF_EACH_CLASS)
        rows.append((f"  {name}", class_text(precision, recall, f1, metrics.get(f"examples.{name}"))))
    return rows


def class_text(precision: float, recall: float, f1: float, examples: float | None = None) -> str:
    """How well a class was found, and of how many examples that is known.

    >>> class_text(1, 0.5, 2 / 3, 12)
    'precision 1.000, recall 0.500, F1 0.667 (12 examples)'
    """
    counted = "" if examples is None else f" ({examples:,.0f} {'example' if examples == 1 else 'examples'})"
    return f"precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}{counted}"


def text_table(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, in two columns of plain text.

    >>> print(text_table([("steps", "500"), ("seconds", "12.0")]))
    steps    500
    seconds  12.0
    """
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {text}".rstrip() for name, text in rows)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table of rich's; on a terminal that is too narrow for it every row as a block of names and values.

    >>> from rich.console import Console
    >>> from rich.table import Table
    >>> table = Table("arm", "loss", "perplexity")
    >>> table.add_row("score=dot", "2.21 (2.17-2.25)", "9.12 (8.79-9.46)")
    >>> Console(width=40).print(Fitted(table))
    score=dot
      loss        2.21 (2.17-2.25)
      perplexity  9.12 (8.79-9.46)
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or its rows one below the other."""
        from rich.text import Text

        wanted = self.table.__rich_measure__(console, options.update(max_width=WIDEST)).maximum
        if wanted <= options.max_width:
            yield self.table
            return

        def text(cell: object) -> Text:
            return cell if isinstance(cell, Text) else console.render_str(str(cell), highlight=False)

        if self.table.title:
            yield text(self.table.title)
        first, *others = self.table.columns
        names = [text(column.header) for column in others]
        width = max((name.cell_len for name in names), default=0)
        last = Text()
        for number, cell in enumerate(first.cells):
            last = title if (title := text(cell)).plain else last
            yield Text.assemble(last, style="bold")
            for name, column in zip(names, others, strict=True):
                value = text(list(column.cells)[number])
                yield Text.assemble("  ", name, " " * (width - name.cell_len + 2), value)
        if self.table.caption:
            yield text(self.table.caption)


def gibibytes(size: float) -> str:
    """Bytes in GiB, or MiB, to three digits.

    >>> gibibytes(3 * 2**29), gibibytes(2**24)
    ('1.5 GiB', '16 MiB')
    """
    if size < _GIBIBYTE / 10:
        return f"{1024 * size / _GIBIBYTE:,.3g} MiB"
    return f"{size / _GIBIBYTE:,.3g} GiB" if size < 1000 * _GIBIBYTE else f"{size / _GIBIBYTE:,.0f} GiB"
