"""Translation: strings in one language to strings in another, or any other pairs of sequences."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints import layout_of, parameters_of, write_model
from regard.errors import InputError
from regard.files import new_folder
from regard.generation import GenerationSettings, Hypothesis, search
from regard.layers import Tokens
from regard.tasks import open_folder
from regard.tasks.card import model_card
from regard.tasks.observer import PredictionObserver
from regard.tasks.translation_task import TranslationBatch, TranslationTask


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """One translation.

    Arguments:
        text: the best translation.
        score: what hypotheses were compared by: log-probability over length penalty, plus coverage penalty.
        log_probability: of the text given the source, natural log.
        source: the text it was made from.
        source_tokens, target_tokens: what the model read and wrote, token by token, end tokens included.
        alternatives: the further hypotheses of an n-best search as (text, score), best first.
    """

    text: str
    score: float
    log_probability: float
    source: str
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()


class Translator:
    """A translation model ready to use: strings in, `Translation`s out.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: tokenizers and decoding settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    def __init__(
        self,
        model: Any,
        task: TranslationTask,
        *,
        recipe: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        self.model = model.eval()
        self.task = task
        self.recipe: dict[str, Any] = dict(recipe or {})
        self.metrics: dict[str, float] = dict(metrics or {})
        self._observers: list[tuple[int, PredictionObserver]] = []

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device

    def translate(self, text: str, settings: GenerationSettings | None = None, *, to: str | None = None) -> Translation:
        """Translate one text.

        Arguments:
            text: in the source language, not empty.
            settings: how to decode; the folder's own where None.
            to: the language wanted, of a model of several.

        Raises:
            InputError: for an empty text or one longer than the model has positions for, and for a language that is missing
                or not one of the model's.
        """
        return self.translate_batch([text], settings, to=to)[0]

    def translate_batch(
        self,
        texts: Sequence[str],
        settings: GenerationSettings | None = None,
        *,
        to: str | None = None,
        batch_size: int = 64,
    ) -> list[Translation]:
        """Translate many texts, in batches of like length; the answers come in the order of the texts.

        Arguments:
            texts: in the source language, none empty.
            settings: how to decode; the folder's own where None.
            to: the language wanted, of a model of several.
            batch_size: texts decoded together. It does not change the answers, only memory and speed.

        Raises:
            InputError: as `translate`.
        """
        settings = self.task.generation if settings is None else settings
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise InputError(f"text {number} is empty; there is nothing to translate")
        encoded, tags = self.task.encode_sources(texts, to), self.task.tag_ids
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
        answers: dict[int, Translation] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            source = self.task.read([encoded[i] for i in rows]).to(self.device)
            watchers = [watcher for thread, watcher in self._observers if thread == threading.get_ident()]
            observer = _Several(watchers) if watchers else None
            found = search(self.model, source, settings, observer=observer, forbid=tags)
            made = [self._translation(texts[i], encoded[i], best) for i, best in zip(rows, found, strict=True)]
            for watcher in watchers:
                watcher.predicted(made, found)
            answers.update(zip(rows, made, strict=True))
        return [answers[i] for i in range(len(texts))]

    def _translation(self, text: str, ids: Sequence[int], found: Sequence[Hypothesis]) -> Translation:
        source, target = self.task.source_tokenizer, self.task.target_tokenizer
        best = found[0]
        written = [*best.tokens, target.end_id] if best.length > len(best.tokens) else list(best.tokens)
        return Translation(
            text=target.decode(best.tokens),
            score=best.score,
            log_probability=best.log_probability,
            source=text,
            source_tokens=tuple(source.tokens([*ids, source.end_id])),
            target_tokens=tuple(target.tokens(written)),
            alternatives=tuple((target.decode(other.tokens), other.score) for other in found[1:]),
        )

    def teacher_forced(self, pairs: Sequence[tuple[str, str]], *, to: str | None = None) -> TranslationBatch:
        """Pairs of texts as the model reads them in training, on the model's device.

        Raises:
            InputError: for a language `to` that is missing or not one of the model's.
        """
        sources = self.task.encode_sources([source for source, _ in pairs], to)
        targets = self.task.target_tokenizer.encode_batch([target for _, target in pairs])
        return self.task.batch(sources, targets).to(self.device)

    def to(self, target: torch.device | torch.dtype | str) -> Translator:
        """Move the model to another device or dtype, in place; returns itself."""
        self.model.to(target)
        return self

    def with_generation(self, settings: GenerationSettings) -> Translator:
        """The same model with other default settings for decoding."""
        task = replace(self.task, generation=settings)
        return Translator(self.model, task, recipe=self.recipe, metrics=self.metrics)

    def save(self, folder: str | Path) -> None:
        """Write the whole folder anew: config, weights, tokenizers, regard.json, model card.

        A Transformer that Hugging Face's config can tell is written as Marian or Pegasus, which other programs open.

        Raises:
            InputError: for a full disk or a place that cannot be written to (an earlier folder there is intact), and for a
                folder that holds other things than a model, which would be lost.
        """
        _check_replaceable(Path(folder))
        with new_folder(folder) as partial:
            save_translation(
                partial,
                self.model.config,
                parameters_of(self.model),
                self.task,
                recipe=self.recipe,
                metrics=self.metrics,
            )

    @contextlib.contextmanager
    def observing(self, observer: PredictionObserver) -> Iterator[None]:
        """Inside the block, tell `observer` of every prediction that this thread makes."""
        entry = (threading.get_ident(), observer)
        self._observers.append(entry)
        try:
            yield
        finally:
            self._observers.remove(entry)


def save_translation(
    folder: Path,
    config: Any,
    tensors: Mapping[str, Tensor],
    task: TranslationTask,
    *,
    recipe: Mapping[str, Any],
    metrics: Mapping[str, float],
) -> None:
    """Write all files of a translation model into an existing folder."""
    values = task.save(folder)
    source, target = task.source_tokenizer, task.target_tokenizer
    obstacle = open_folder.obstacle(source, target, config.target_vocabulary)
    write_model(folder, config, tensors, task=values, recipe=recipe, metrics=metrics, obstacle=obstacle)
    layout = layout_of(config, obstacle)
    if "why" not in layout:
        open_folder.write(folder, target, task.generation, maximum=config.maximum_positions, never=sorted(task.tag_ids))
    (folder / "README.md").write_text(model_card(config, values, recipe, metrics, layout), encoding="utf-8")


def _check_replaceable(folder: Path) -> None:
    """Refuse to write a model in place of a folder that is more than a model: a run, or somebody's home."""
    if not folder.is_dir():
        return
    known = {"config.json", "model.safetensors", "regard.json", "README.md", "tokenizer.json", "source", "target"}
    known |= {open_folder.TOKENIZER_CONFIG, open_folder.GENERATION_CONFIG}
    others = sorted({path.name for path in folder.iterdir()} - known)
    if others:
        raise InputError(f"{folder}: holds {others[0]}, which is no part of a model; choose a new folder")


class _Several:
    """Passes what a search tells to several observers."""

    def __init__(self, observers: Sequence[PredictionObserver]) -> None:
        self._observers = observers

    def search_started(self, source: Tokens) -> None:
        for observer in self._observers:
            observer.search_started(source)

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        for observer in self._observers:
            observer.search_finished(hypotheses)
