"""Metrics on the validation set: of all of it, and where a model translates into several languages of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from regard.data.token_store import TokenStore
from regard.tasks.evaluation import compared, evaluate
from regard.tasks.translation import Translator
from regard.tasks.translation_task import TranslationTask, tag
from regard.training.loop import Loop, evaluation_loss

DECODED = ("exact_match", "bleu")


def losses_by_language(loop: Loop, task: TranslationTask, store: TokenStore) -> dict[str, float]:
    """What `evaluation_loss` finds on each language's pairs, as `loss.de`; every worker calls it.

    Empty for a model of one language.
    """
    metrics: dict[str, float] = {}
    for language, rows in rows_by_language(task, store).items():
        # It asks for no more than lengths and sequences.
        found = evaluation_loss(loop, cast(TokenStore, _Rows(store, rows)))
        metrics |= {f"{name}.{language}": value for name, value in found.items()}
    return metrics


def decoded_names(task: TranslationTask) -> list[str]:
    """What is decoded for: exact match and BLEU together, then those of each language, as `bleu.de`."""
    languages = ["", *(f".{language}" for language in task.languages)]
    return [f"{name}{language}" for language in languages for name in DECODED]


def decoded_by_language(translator: Translator, store: TokenStore, count: int) -> list[float]:
    """Exact match and BLEU on about `count` validation pairs, the first of each language; in the order of `decoded_names`."""
    task = translator.task
    found: list[float] = []
    texts: list[str] = []
    references: list[str] = []
    share = -(-count // len(task.languages))
    for language, rows in rows_by_language(task, store).items():
        pairs = texts_of(task, store, rows[:share])
        result = evaluate(translator, pairs, to=language)
        found += [result.metrics.get(name, 0.0) for name in DECODED]
        texts += [translation.text for translation in result.translations]
        references += [target for _, target in pairs]
    together = compared(texts, references, task.target_tokenizer)[0]
    return [*(together.get(name, 0.0) for name in DECODED), *found]


def rows_by_language(task: TranslationTask, store: TokenStore) -> dict[str, list[int]]:
    """The rows of a token store into each language, told by the tag in front; empty for a model of one language."""
    if not task.languages:
        return {}
    names = {task.source_tokenizer.id_of(tag(language)): language for language in task.languages}
    rows: dict[str, list[int]] = {language: [] for language in task.languages}
    for row in range(len(store)):
        rows[names[int(store.sequence("source", row)[0])]].append(row)
    return rows


def texts_of(task: TranslationTask, store: TokenStore, rows: Sequence[int]) -> list[tuple[str, str]]:
    """Pairs of a token store as texts again, without tags."""
    return [
        (
            task.source_tokenizer.decode(store.sequence("source", row).tolist()),
            task.target_tokenizer.decode(store.sequence("target", row).tolist()),
        )
        for row in rows
    ]


class _Rows:
    """Some rows of a token store."""

    def __init__(self, store: TokenStore, rows: Sequence[int]) -> None:
        self._store = store
        self._rows = np.array(rows, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def lengths(self, column: str) -> np.ndarray:
        """Tokens of each row."""
        return self._store.lengths(column)[self._rows]

    def sequence(self, column: str, row: int) -> np.ndarray:
        """The token ids of a row."""
        return self._store.sequence(column, int(self._rows[row]))
