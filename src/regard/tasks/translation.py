"""Translation: strings in one language to strings in another, or any other pairs of sequences."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.checkpoints import layout_of, new_folder, parameters_of, write_model
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis, search
from regard.layers import Tokens
from regard.structure import coerced, from_mapping
from regard.tasks import open_folder
from regard.tasks.card import model_card
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.observer import PredictionObserver
from regard.text import Tokenizer


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


@dataclass(frozen=True, slots=True, eq=False)
class TranslationBatch:
    """What one step of training reads.

    Arguments:
        source: (B, S), each ended by the end token.
        target: (B, L), shifted right: the start token first.
        labels: (B, L) int64, the token each target position has to predict, the end token last.
    """

    source: Tokens
    target: Tokens
    labels: Tensor

    def to(self, device: torch.device) -> TranslationBatch:
        """The same batch on another device."""
        return TranslationBatch(self.source.to(device), self.target.to(device), self.labels.to(device))


@dataclass(frozen=True, slots=True, eq=False)
class LossSum:
    """A loss summed over target tokens, so that sums of several batches add up before they are divided.

    Arguments:
        total: the sum, a scalar with a gradient.
        tokens: how many real target tokens it is over.
        correct: how many of them had the highest logit.
    """

    total: Tensor
    tokens: int
    correct: Tensor


@dataclass(frozen=True, slots=True)
class TranslationTask:
    """What turns strings into a translation model's tensors, and its outputs into a loss and strings.

    Arguments:
        source_tokenizer, target_tokenizer: the same object where one vocabulary is shared.
        generation: how to decode unless told otherwise.
        languages: those that one model translates into; a source then begins with the tag of the one wanted (Johnson et al.
            2017). Empty for a model of one language, which needs no name.
    """

    name: ClassVar[str] = "translation"

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    languages: tuple[str, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source_tokenizer == self.target_tokenizer

    def model_settings(self) -> dict[str, int]:
        """What the vocabularies decide of a model's config."""
        target = self.target_tokenizer
        return {
            "source_vocabulary": self.source_tokenizer.size,
            "target_vocabulary": target.size,
            "padding_id": target.padding_id,
            "start_id": target.start_id,
            "end_id": target.end_id,
        }

    def encode_sources(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """The token ids of sources, without the end token; the tag of the language wanted in front where there are several.

        Raises:
            InputError: where `to` is missing, not one of the languages, or given to a model of one language.
        """
        self.check_language(to)
        before = [] if to is None else [self.source_tokenizer.id_of(tag(to))]
        return [[*before, *ids] for ids in self.source_tokenizer.encode_batch(list(texts))]

    def check_language(self, to: str | None) -> None:
        """Refuse a language that the model cannot be asked for, naming those it can.

        Raises:
            InputError: where `to` is missing, not one of the languages, or given to a model of one language.
        """
        names = ", ".join(self.languages)
        if to is None and self.languages:
            raise InputError(f"the model translates into several languages; name one with to (--to): {names}")
        if to is not None and not self.languages:
            raise InputError(f"to is {to!r}, but the model translates into one language only; leave it out")
        if to is not None and to not in self.languages:
            raise InputError(f"the model does not translate into {to!r}; it translates into {names}")

    @property
    def tag_ids(self) -> tuple[int, ...]:
        """The languages' tags in the target vocabulary, where it is the source's too: never to be written."""
        known = set(self.target_tokenizer.extra_tokens) if self.languages else set()
        return tuple(self.target_tokenizer.id_of(tag(name)) for name in self.languages if tag(name) in known)

    def read(self, sources: Sequence[Sequence[int]]) -> Tokens:
        """Source token ids to what the model reads: the end token after each, then padding."""
        end = self.source_tokenizer.end_id
        return Tokens.pad([[*ids, end] for ids in sources], padding_id=self.source_tokenizer.padding_id)

    def batch(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> TranslationBatch:
        """Pairs of token ids to a batch for training."""
        tokenizer = self.target_tokenizer
        inputs = [[tokenizer.start_id, *ids] for ids in targets]
        labels = [[*ids, tokenizer.end_id] for ids in targets]
        return TranslationBatch(
            source=self.read(sources),
            target=Tokens.pad(inputs, padding_id=tokenizer.padding_id),
            labels=Tokens.pad(labels, padding_id=tokenizer.padding_id).ids,
        )

    def loss(self, model: nn.Module, batch: TranslationBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the labels, summed over real tokens; padding counts nothing and gets no smoothing mass."""
        logits = model(batch.source, batch.target)
        real = batch.target.valid.flatten()
        tokenizer = self.target_tokenizer
        total, correct = smoothed_cross_entropy(
            logits.flatten(0, 1),
            batch.labels.flatten(),
            valid=real,
            smoothing=smoothing,
            never=tokenizer.padding_id if tokenizer.padding_id != tokenizer.end_id else None,
        )
        return LossSum(total, int(real.sum()), correct)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizers into `folder`; return what else regard.json has to hold."""
        if self.shared:
            self.source_tokenizer.save(folder)
        else:
            self.source_tokenizer.save(folder / "source")
            self.target_tokenizer.save(folder / "target")
        languages = {"languages": list(self.languages)} if self.languages else {}
        return {"name": self.name, "shared": self.shared, **languages, "generation": asdict(self.generation)}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> TranslationTask:
        """The task that `save` wrote into `folder`, `values` being what it returned."""
        source = Tokenizer.load(folder if values.get("shared") else folder / "source")
        target = source if values.get("shared") else Tokenizer.load(folder / "target")
        where = f"{folder / 'regard.json'}: task"
        generation = from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation")
        languages = coerced(values.get("languages", []), tuple[str, ...], f"{where}.languages")
        for language in languages:
            if tag(language) not in source.extra_tokens:
                raise InputError(
                    f"{where}.languages names {language!r}, and the tokenizer has no token {tag(language)}; "
                    "tokenizer and regard.json must come from the same model"
                )
        return cls(source, target, generation, languages)


def tag(language: str) -> str:
    """The token that asks for a language, first of a source.

    >>> tag("de")
    '<2de>'
    """
    return f"<2{language}>"


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
