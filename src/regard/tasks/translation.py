"""Translation: pairs of texts in two languages, or in any two forms."""

from __future__ import annotations

import bisect
import itertools
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.data.batching import Batches
from regard.data.malformed import MalformedRows
from regard.data.pairs import pairs_in_memory, read_pairs
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis
from regard.generation.penalties import check_coverage
from regard.layers.embeddings import check_number
from regard.parts import own_metrics, own_scores
from regard.quantization import InferenceTransformer, QuantizedPrecision
from regard.structure import coerced, from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.examples import hold_out
from regard.tasks.gaps import refuse_empty
from regard.tasks.generation_config import (
    pair_obstacle,
    read_generation_config,
    write_generation_config,
)
from regard.tasks.pairs import PairBatch, PairPredictor, PairTask, written_tokens
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, finish, is_prepared, opened
from regard.tasks.spec import TaskSpec
from regard.tasks.translation_data import PairTokenizerSettings, Place, TranslationData
from regard.text import Tokenizer
from regard.text.training import suited_kind
from regard.text.unknown import warn_of_unknown


@dataclass(frozen=True, slots=True)
class TranslationTask(PairTask):
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

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target."""
        return self.source_tokenizer, self.target_tokenizer

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

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Pairs and vocabularies in a few words."""
        return (
            f"{len(train):,} pairs to learn from, {len(validation):,} to validate on; vocabularies of "
            f"{self.source_tokenizer.size:,} and {self.target_tokenizer.size:,} tokens"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse data that the model has too few positions for, and a coverage penalty where there is no coverage.

        Raises:
            InputError: naming what is too long, and what to do.
        """
        PairTask.check(self, model, train, validation)
        if self.generation.coverage_penalty > 0:
            check_coverage(model)

    def shorter(self, split: str, limit: int) -> str:
        """How pairs become shorter."""
        return (
            f"leave long pairs out: data.maximum_tokens={limit - 1}"
            if split == "training"
            else "shorten data.validation"
        )

    @property
    def group_names(self) -> tuple[str, ...]:
        """The languages that one model translates into."""
        return self.languages

    def groups(self, data: TokenStore) -> dict[str, list[int]]:
        """The rows into each language, told by the tag in front; empty for a model of one language."""
        if not self.languages:
            return {}
        names = {self.source_tokenizer.id_of(tag(language)): language for language in self.languages}
        rows: dict[str, list[int]] = {language: [] for language in self.languages}
        for row in range(len(data)):
            rows[names[int(data.sequence("source", row)[0])]].append(row)
        return rows

    def texts(self, data: TokenStore, rows: Sequence[int]) -> list[tuple[str, str]]:
        """Pairs of a token store as texts again, without tags."""
        return [
            (
                self.source_tokenizer.decode(data.sequence("source", row).tolist()),
                self.target_tokenizer.decode(data.sequence("target", row).tolist()),
            )
            for row in rows
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizers into `folder`; return what else regard.json has to hold."""
        if self.shared:
            self.source_tokenizer.save(folder)
        else:
            self.source_tokenizer.save(folder / "source")
            self.target_tokenizer.save(folder / "target")
        languages = {"languages": list(self.languages)} if self.languages else {}
        return {"name": self.name, "shared": self.shared, **languages, "generation": asdict(self.generation)}

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a translation model into an existing folder.

        A Transformer that Hugging Face's config can tell is written as Marian or Pegasus, which other programs open.
        """
        source, target = self.source_tokenizer, self.target_tokenizer
        obstacle = pair_obstacle(source, target, config.target_vocabulary)
        asked = f', to="{self.languages[0]}"' if self.languages else ""
        others = f"  # or {', '.join(self.languages[1:])}" if self.languages else ""
        use = [f'print(model.translate("..."{asked}).text){others}']
        layout = write_with_card(
            folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use, obstacle=obstacle
        )
        if "why" not in layout:
            write_generation_config(
                folder, target, self.generation, maximum=config.maximum_positions, never=sorted(self.tag_ids)
            )

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


class Translator(PairPredictor[TranslationTask]):
    """A translation model ready to use: strings in, `Translation`s out.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: tokenizers and decoding settings.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("exact_match", "bleu")
    judged_by_own: ClassVar[bool] = True

    def quantised(self, precision: QuantizedPrecision) -> Translator:
        """The same with weights of 8 or 4 bits, for use on a processor, where it is faster.

        The model itself is left as it is. What the rounding costs, `regard evaluate MODEL PAIRS dtype=int8` tells.

        Arguments:
            precision: `int8` or `int4`, as `regard.quantization.QuantizedWeights` says.

        Raises:
            InputError: for a model that is no Transformer, is on another device, or is looked at.
        """
        prepared = InferenceTransformer(self.model, precision)
        return Translator(prepared, self.task, recipe=self.recipe, metrics=self.metrics)

    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids of a text, the tag of the language wanted in front where there are several."""
        return self.task.encode_sources([text], to)[0]

    @property
    def usual(self) -> GenerationSettings:
        """The folder's own settings."""
        return self.task.generation

    @property
    def never(self) -> tuple[int, ...]:
        """The tags of languages."""
        return self.task.tag_ids

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
        settings = (settings or self.task.generation).with_ids(self.task.target_tokenizer)
        refuse_empty(texts, why="there is nothing to translate")
        encoded = self.task.encode_sources(texts, to)
        warn_of_unknown(self.task.source_tokenizer, texts, encoded)
        return self.searched(
            encoded,
            settings,
            lambda i, found: self._translation(texts[i], encoded[i], found),
            batch_size=batch_size,
        )

    def _translation(self, text: str, ids: Sequence[int], found: Sequence[Hypothesis]) -> Translation:
        source, target = self.task.source_tokenizer, self.task.target_tokenizer
        best = found[0]
        return Translation(
            text=target.decode(best.tokens),
            score=best.score,
            log_probability=best.log_probability,
            source=text,
            source_tokens=tuple(source.tokens([*ids, source.end_id])),
            target_tokens=written_tokens(self.task, best),
            alternatives=tuple((target.decode(other.tokens), other.score) for other in found[1:]),
        )

    def teacher_forced(self, pairs: Sequence[tuple[str, str]], *, to: str | None = None) -> PairBatch:
        """Pairs of texts as the model reads them in training, on the model's device.

        Raises:
            InputError: for a language `to` that is missing or not one of the model's.
        """
        sources = self.task.encode_sources([source for source, _ in pairs], to)
        targets = self.task.target_tokenizer.encode_batch([target for _, target in pairs])
        return self.task.batch(sources, targets).to(self.device)

    def with_generation(self, settings: GenerationSettings) -> Translator:
        """The same model with other default settings for decoding."""
        task = replace(self.task, generation=settings)
        return Translator(self.model, task, recipe=self.recipe, metrics=self.metrics)

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """Exact match and BLEU on about `count` validation pairs, the first of each language."""
        rows = self.task.groups(data) or {None: range(len(data))}
        share = -(-count // len(rows))
        found: dict[str, float] = {}
        texts: list[str] = []
        references: list[str] = []
        for language, mine in rows.items():
            pairs = self.task.texts(data, mine[:share])
            answers = [each.text for each in self.translate_batch([source for source, _ in pairs], to=language)]
            wanted = [target for _, target in pairs]
            if language is not None and pairs:
                found |= {f"{name}.{language}": value for name, value in self._judged(answers, wanted).items()}
            texts += answers
            references += wanted
        return self._judged(texts, references) | found

    def _judged(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        metrics, _, _ = compared(texts, references, self.task.target_tokenizer)
        return {name: metrics.get(name, 0.0) for name in (*self.judged, *own_metrics(self.task.name))}


TextPairs = Sequence[tuple[str, str]]
Reader = Callable[[MalformedRows], Iterable[tuple[str, str]]]
Row = tuple[list[int], list[int]]


def prepare(
    data: TranslationData,
    tokenizer: PairTokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    given: TextPairs | None = None,
    given_validation: TextPairs | None = None,
) -> Prepared[TranslationTask]:
    """Read the data once for the tokenizers and once for the tokens, and leave both in `folder`.

    Arguments:
        folder: where to put tokenizers and token stores; taken as they are if they are there already (a resumed run).
        seed: of builtin data and of the choice of held-out pairs.
        given, given_validation: pairs of texts in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read, or too little of it.
    """
    if not is_prepared(folder):
        finish(folder, _Preparation(data, tokenizer, folder, seed, given, given_validation).run())
    shared = (folder / "tokenizer.json").is_file()
    task = TranslationTask.load(folder, {"shared": shared})
    return opened(TranslationTask(task.source_tokenizer, task.target_tokenizer, generation, data.languages), folder)


@dataclass(kw_only=True, slots=True, eq=False)
class _Part:
    """The pairs into one language.

    Arguments:
        name: where the recipe has them.
        data: what the recipe says of them.
        language: None for a model of one language.
        train, validation: read the pairs anew; validation is None where pairs are held out of the training data.
        count: training pairs, once they have been read.
        held_out: which of them are held out.
        dropped: how many are too long.
    """

    name: str
    data: TranslationData
    language: str | None
    train: Reader
    validation: Reader | None
    malformed: MalformedRows = field(default_factory=MalformedRows)
    count: int = 0
    held_out: frozenset[int] = frozenset()
    dropped: int = 0

    def hold_out(self, seed: int) -> None:
        """Choose what is held out; of files of equal length the same lines, so that parallel ones leak nothing."""
        if self.validation is not None:
            return
        self.held_out = hold_out(self.count, size=self.data.validation_size, seed=seed, what="pairs", where=self.name)

    def notes(self) -> Iterator[str]:
        """What the user ought to know."""
        place = "" if self.language is None else f"{self.name}: "
        yield from (place + note for note in self.malformed.notes)
        if self.dropped:
            yield (
                f"{place}{self.dropped} of {self.count} pairs are longer than data.maximum_tokens = "
                f"{self.data.maximum_tokens} and were left out."
            )


class _Preparation:
    """One preparation: which pairs are held out is decided once the number of all is known."""

    def __init__(
        self,
        data: TranslationData,
        tokenizer: PairTokenizerSettings,
        folder: Path,
        seed: int,
        pairs: TextPairs | None,
        validation_pairs: TextPairs | None,
    ) -> None:
        self.settings = tokenizer
        self.chosen: list[str] = []
        self.folder = folder
        self.seed = seed
        if data.targets is not None:
            if pairs is not None or validation_pairs is not None:
                raise InputError("pairs in memory belong to no language; name files under data.targets")
            self.parts = [
                _part(f"data.targets.{language}", part, language, seed) for language, part in data.targets.items()
            ]
        else:
            self.parts = [_part("data", data, None, seed, pairs, validation_pairs)]

    def run(self) -> list[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (TRAIN, VALIDATION, "source", "target", ".*.partial"):  # of a preparation that was killed
            for path in self.folder.glob(name):
                shutil.rmtree(path, ignore_errors=True)
        (self.folder / "tokenizer.json").unlink(missing_ok=True)
        source, target = self._tokenizers()
        for part in self.parts:
            _check_covered(part, source, target, self.settings)
            part.hold_out(self.seed)
        columns = {"source": source.size, "target": target.size}
        TokenStore.write(self.folder / TRAIN, columns, self._rows(lambda part: _training_rows(part, source, target)))
        TokenStore.write(
            self.folder / VALIDATION, columns, self._rows(lambda part: _validation_rows(part, source, target))
        )
        for part in self.parts:
            if part.dropped and part.count == part.dropped + len(part.held_out):
                raise InputError(
                    f"no pair is left to train on: all {part.dropped} are longer than {part.name}.maximum_tokens; raise it"
                )
        return [*self.chosen, *(note for part in self.parts for note in part.notes())]

    def _rows(self, rows_of: Callable[[_Part], Iterator[Row]]) -> Iterator[Row]:
        for part in self.parts:
            yield from rows_of(part)

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        settings = self.settings
        tags = tuple(tag(part.language) for part in self.parts if part.language is not None)

        def texts(sides: tuple[int, ...], counted: bool) -> Iterator[str]:
            for part in self.parts:
                part.count = 0
                for pair in part.train(part.malformed if counted else MalformedRows()):
                    part.count += 1
                    for side in sides:
                        yield pair[side]
                alphabet = part.data.builtin.alphabet() if part.data.builtin is not None else None
                if alphabet is not None:  # a small or unlucky draw may lack a symbol
                    yield from (alphabet[side] for side in sides)

        def trained(*sides: int, counted: bool = True) -> Tokenizer:
            kind: str = settings.kind
            if kind == "auto":
                kind, why = suited_kind(texts(sides, False))
                whose = " and ".join(("source", "target")[side] for side in sides)
                self.chosen.append(f"tokenizer of the {whose}: {kind}; {why}. tokenizer.kind chooses another.")
            return Tokenizer.train(
                texts(sides, counted),
                kind=kind,
                size=settings.size,
                lowercase=settings.lowercase,
                extra_tokens=tags if 0 in sides else (),
                sentinels=settings.sentinels,
            )

        if settings.path is not None:
            source = target = Tokenizer.load(settings.path)
            missing = [name for name in tags if name not in source.extra_tokens]
            if missing:
                raise InputError(
                    f"tokenizer.path: {settings.path} has no special token {missing[0]}, which data.targets needs; "
                    "leave the path out to train one that has it"
                )
            for part in self.parts:
                part.count = sum(1 for _ in part.train(part.malformed))
        elif settings.shared:
            source = target = trained(0, 1)
        else:
            source, target = trained(0), trained(1, counted=False)
        if source is target:
            source.save(self.folder)
        else:
            source.save(self.folder / "source")
            target.save(self.folder / "target")
        return source, target


def _part(
    name: str,
    data: TranslationData,
    language: str | None,
    seed: int,
    pairs: TextPairs | None = None,
    validation_pairs: TextPairs | None = None,
) -> _Part:
    has_own = validation_pairs is not None or data.validation is not None or data.builtin is not None
    return _Part(
        name=name,
        data=data,
        language=language,
        train=_reader(name, data, data.train, "train", pairs, seed),
        validation=_reader(name, data, data.validation, "validation", validation_pairs, seed) if has_own else None,
    )


def _reader(
    name: str, data: TranslationData, place: Place | None, split: str, pairs: TextPairs | None, seed: int
) -> Reader:
    if pairs is not None:
        found = [(pair.source, pair.target) for pair in pairs_in_memory(pairs, data.source, data.target, split)]
        return lambda _: found
    builtin = data.builtin
    if builtin is not None:
        size = builtin.size if split == "train" else builtin.validation_size
        builtin.pairs(split, size, seed)  # refuses what there is not enough of now, not after the other split was read
        return lambda _: builtin.pairs(split, size, seed)
    if place is None:
        raise InputError(
            f"{name}.train is missing; name a file of pairs, two parallel files, or builtin data such as {name}.dates={{}}"
        )
    path = place if isinstance(place, str) else list(place)

    def read(malformed: MalformedRows) -> Iterator[tuple[str, str]]:
        rows = read_pairs(
            path,
            format=data.format,
            source=data.source,
            target=data.target,
            on_error=data.on_error,
            malformed=malformed,
        )
        return ((pair.source, pair.target) for pair in rows)

    return read


def _training_rows(part: _Part, source: Tokenizer, target: Tokenizer) -> Iterator[Row]:
    # What is malformed was counted when the tokenizers read it.
    limit = part.data.maximum_tokens
    for row in _encoded(part, part.train(MalformedRows()), lambda i: i not in part.held_out, source, target):
        if limit is not None and max(map(len, row)) > limit:
            part.dropped += 1
        else:
            yield row


def _validation_rows(part: _Part, source: Tokenizer, target: Tokenizer) -> Iterator[Row]:
    if part.validation is None:
        return _encoded(part, part.train(MalformedRows()), lambda i: i in part.held_out, source, target)
    return _encoded(part, part.validation(part.malformed), lambda _: True, source, target)


def _encoded(
    part: _Part,
    pairs: Iterable[tuple[str, str]],
    wanted: Callable[[int], bool],
    source: Tokenizer,
    target: Tokenizer,
) -> Iterator[Row]:
    """Token ids of the wanted pairs, the language's tag in front of the source."""
    before = [] if part.language is None else [source.id_of(tag(part.language))]
    chosen = (pair for i, pair in enumerate(pairs) if wanted(i))
    while chunk := list(itertools.islice(chosen, 1024)):
        sources = source.encode_batch([pair[0] for pair in chunk])
        targets = target.encode_batch([pair[1] for pair in chunk])
        yield from (([*before, *left], right) for left, right in zip(sources, targets, strict=True))


def _check_covered(part: _Part, source: Tokenizer, target: Tokenizer, settings: PairTokenizerSettings) -> None:
    """Refuse a vocabulary that lacks symbols of builtin data: what reads as unknown can be neither told apart nor written."""
    alphabet = part.data.builtin.alphabet() if part.data.builtin is not None else None
    for tokenizer, text in zip((source, target), alphabet or (), strict=False):
        if tokenizer.unknown_id is not None and tokenizer.unknown_id in tokenizer.encode(text):
            raise InputError(
                f"the tokenizer of {tokenizer.size} tokens does not know all {len(text.split())} symbols of {part.name}; "
                f"raise tokenizer.size = {settings.size}"
                + (f", or leave out tokenizer.path = {settings.path}" if settings.path is not None else "")
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthBin:
    """The pairs whose sources have between `shortest` and `longest` words.

    Arguments:
        shortest, longest: words between spaces, both included; `longest` is None in the last bin, which has no end.
        count: pairs; a bin may be empty, and has no metrics then.
        metrics: as those of the whole.
    """

    shortest: int
    longest: int | None
    count: int
    metrics: dict[str, float]

    @property
    def name(self) -> str:
        """The range, such as `11-15`, `7` for one length, or `21+` without end."""
        if self.longest == self.shortest:
            return str(self.shortest)
        return f"{self.shortest}+" if self.longest is None else f"{self.shortest}-{self.longest}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `exact_match` in [0, 1]; `position_accuracy` in [0, 1], the share of places at which output and reference have
            the same token, over the places of the longer one; `bleu` and `chrf` in [0, 100] as sacreBLEU computes them;
            `length_ratio`, words of the output over words of the reference.
        signatures: what sacreBLEU says of how it computed each.
        count: pairs.
        translations: one for each pair.
        note: what could not be computed and why; empty where all was.
        bins: the same by length of the source, where that was asked for.
    """

    metrics: dict[str, float]
    signatures: dict[str, str]
    count: int
    translations: tuple[Translation, ...] = field(repr=False, default=())
    note: str = ""
    bins: tuple[LengthBin, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherForced:
    """How well a model predicts each token of the references from those before it.

    Arguments:
        loss: mean over target tokens, end tokens included, of -log p(token | tokens before, source), natural log.
        perplexity: exp(loss).
        token_accuracy: share of the tokens that had the highest probability.
        tokens: target tokens.
    """

    loss: float
    perplexity: float
    token_accuracy: float
    tokens: int


def evaluate(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    settings: GenerationSettings | None = None,
    *,
    to: str | None = None,
    bins: Sequence[int] | None = None,
    batch_size: int = 64,
) -> TranslationEvaluation:
    """Translate the sources and compare with the targets.

    BLEU is sacreBLEU's: cased, tokenised by `13a`, on the plain output. Without sacrebleu installed it and chrF are left out.

    Arguments:
        pairs: source and reference.
        settings: how to decode; the folder's own where None.
        to: the language of the references, of a model of several.
        bins: rising numbers of words, such as [10, 15, 20]: the metrics too of the pairs whose source has 1 to 10 words, 11 to
            15, 16 to 20, and more.
        batch_size: texts decoded together.

    Raises:
        InputError: for an empty list, bins that do not rise, or a language that is missing or not one of the model's.
    """
    if not pairs:
        raise InputError("there is nothing to evaluate; give at least one pair")
    pairs = [(pair.source, pair.target) for pair in pairs_in_memory(pairs)]
    ends = _checked(bins or ())
    translations = translator.translate_batch([source for source, _ in pairs], settings, to=to, batch_size=batch_size)
    texts, references = [t.text for t in translations], [target for _, target in pairs]
    tokenizer = translator.task.target_tokenizer
    metrics, signatures, note = compared(texts, references, tokenizer)
    return TranslationEvaluation(
        metrics=metrics,
        signatures=signatures,
        count=len(pairs),
        translations=tuple(translations),
        note=note,
        bins=_binned([source for source, _ in pairs], texts, references, tokenizer, ends) if ends else (),
    )


def teacher_forced(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    *,
    to: str | None = None,
    batch_tokens: int = 16_384,
) -> TeacherForced:
    """Loss, perplexity and token accuracy on pairs, the model reading the references and not what it wrote itself.

    No label smoothing: the numbers are those of validation in training.

    Arguments:
        pairs: source and reference.
        to: the language of the references, of a model of several.
        batch_tokens: tokens computed together, of source and target, padding included; the numbers are the same for any.

    Raises:
        InputError: for an empty list, a text longer than the model has positions for, or a language that is missing or not
            one of the model's.
    """
    if not pairs:
        raise InputError("there is nothing to evaluate; give at least one pair")
    pairs = [(pair.source, pair.target) for pair in pairs_in_memory(pairs)]
    task = translator.task
    sources = task.encode_sources([source for source, _ in pairs], to)
    targets = task.target_tokenizer.encode_batch([target for _, target in pairs])
    lengths = np.array([[len(source) + 1, len(target) + 1] for source, target in zip(sources, targets, strict=True)])
    total, tokens, correct = 0.0, 0, 0
    with torch.no_grad():
        for rows in Batches(lengths, maximum_tokens=batch_tokens).in_order():
            batch = task.batch([sources[row] for row in rows], [targets[row] for row in rows])
            found = task.loss(translator.model, batch.to(translator.device))
            total += check_number(found.total.item(), "these pairs")
            tokens += found.tokens
            correct += int(found.correct)
    loss = total / tokens
    return TeacherForced(
        loss=loss, perplexity=math.exp(min(50.0, loss)), token_accuracy=correct / tokens, tokens=tokens
    )


def _checked(bins: Sequence[int]) -> list[int]:
    ends = list(bins)
    if any(isinstance(end, bool) or not isinstance(end, int) or end < 1 for end in ends) or sorted(set(ends)) != ends:
        raise InputError(f"bins are {ends}; give rising numbers of words, such as 10,15,20")
    return ends


def _binned(
    sources: Sequence[str], texts: Sequence[str], references: Sequence[str], tokenizer: Tokenizer, ends: list[int]
) -> tuple[LengthBin, ...]:
    rows: list[list[int]] = [[] for _ in range(len(ends) + 1)]
    for row, source in enumerate(sources):
        rows[bisect.bisect_left(ends, len(source.split()))].append(row)
    bins = []
    for number, within in enumerate(rows):
        found = compared([texts[i] for i in within], [references[i] for i in within], tokenizer) if within else ({},)
        shortest, longest = (ends[number - 1] + 1 if number else 1), (ends[number] if number < len(ends) else None)
        bins.append(LengthBin(shortest=shortest, longest=longest, count=len(within), metrics=found[0]))
    return tuple(bins)


def foreign_translation(folder: Path, config: Any) -> TranslationTask:
    """The task of a folder that another program wrote: its tokenizer and decoding settings.

    Arguments:
        config: of the model in it.

    Raises:
        InputError: where there is no tokenizer.json, or it and config.json do not belong together.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; Regard reads the format of the `tokenizers` library alone, so convert the folder's "
            "tokenizer (SentencePiece models, for instance) to a tokenizer.json first"
        )
    tokenizer = Tokenizer.load(path)
    if tokenizer.size > config.target_vocabulary:
        raise InputError(
            f"{path}: has {tokenizer.size} tokens where config.json's vocab_size is {config.target_vocabulary}; "
            "tokenizer and model must come from the same folder"
        )
    for key, token, wanted in (
        ("pad_token_id", tokenizer.padding_id, config.padding_id),
        ("decoder_start_token_id", tokenizer.start_id, config.start_id),
        ("eos_token_id", tokenizer.end_id, config.end_id),
    ):
        if token != wanted:
            raise InputError(
                f"{path}: {tokenizer.tokens([token])[0]} has the id {token} where config.json's {key} is {wanted}; "
                "tokenizer and model must come from the same folder"
            )
    generation = read_generation_config(
        folder, start_id=config.start_id, end_id=config.end_id, usual=GenerationSettings()
    )
    return TranslationTask(tokenizer, tokenizer, generation)


TRANSLATION = TaskSpec(
    task=TranslationTask,
    predictor=Translator,
    interface="encoder_decoder",
    sections={"data": TranslationData, "tokenizer": PairTokenizerSettings, "generation": GenerationSettings},
    prepare=prepare,
    evaluate=evaluate,
    filled_in={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    foreign=foreign_translation,
)
