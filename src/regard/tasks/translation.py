"""Translation: pairs of texts in two languages, or in any two forms."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from regard.data.pairs import Pair
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, Hypothesis
from regard.models.encoder_decoder import RecurrentEncoderDecoder
from regard.parts import own_metrics
from regard.quantization import InferenceTransformer, Precision, quantized_recurrent
from regard.structure import coerced, from_mapping
from regard.tasks.examples import Reader
from regard.tasks.generation_config import foreign_pair_tokenizer, pair_obstacle, write_generation_config
from regard.tasks.pairs import (
    PairBatch,
    PairPart,
    PairPredictor,
    PairTask,
    compared,
    in_chunks,
    written_tokens,
)
from regard.tasks.predictor import refuse_empty
from regard.tasks.preparation import TRAIN, VALIDATION, Places, Prepared, prepare
from regard.tasks.spec import TaskSpec
from regard.tasks.translation_data import PAIRS, PairTokenizerSettings, TranslationData
from regard.tasks.translation_evaluation import LengthBin as LengthBin
from regard.tasks.translation_evaluation import TeacherForced as TeacherForced
from regard.tasks.translation_evaluation import TranslationEvaluation as TranslationEvaluation
from regard.tasks.translation_evaluation import evaluate
from regard.tasks.translation_evaluation import teacher_forced as teacher_forced
from regard.text import Tokenizer
from regard.text.training import suited_kind
from regard.text.warnings import warn_of_unknown

SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class TranslationTask(PairTask):
    """The translation task: strings to the tensors of a model, and its outputs to a loss and strings.

    Arguments:
        source_tokenizer, target_tokenizer: the same object for a shared vocabulary.
        generation: the default decoding settings.
        languages: the target languages of a multilingual model; a source then begins with the tag of its target language (Johnson
            et al. 2017). Empty for one target language.
        surrounded: whether texts have a start and an end token, as for BART; see `PairTask.surrounds`.
    """

    name: ClassVar[str] = "translation"

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    languages: tuple[str, ...] = ()
    surrounded: bool = False

    @property
    def surrounds(self) -> bool:
        """Whether texts have a start and an end token."""
        return self.surrounded

    @property
    def usual(self) -> GenerationSettings:
        """The decoding settings of the folder."""
        return self.generation

    @property
    def shared(self) -> bool:
        """Whether source and target share a vocabulary."""
        return self.source_tokenizer == self.target_tokenizer

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target."""
        return self.source_tokenizer, self.target_tokenizer

    def encode_sources(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """The token ids of sources, without the end token; with several target languages they begin with the language tag.

        Raises:
            InputError: if `to` is missing, is not one of the languages, or is given to a model of one language.
        """
        self.check_language(to)
        before = [] if to is None else [self.source_tokenizer.id_of(tag(to))]
        return [[*before, *ids] for ids in self.source_tokenizer.encode_batch(list(texts))]

    def check_language(self, to: str | None) -> None:
        """Refuse a language that the model does not have; the message lists those that it has.

        Raises:
            InputError: if `to` is missing, is not one of the languages, or is given to a model of one language.
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
        """The ids of language tags in a shared vocabulary, which are never generated."""
        known = set(self.target_tokenizer.extra_tokens) if self.languages else set()
        return tuple(self.target_tokenizer.id_of(tag(name)) for name in self.languages if tag(name) in known)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """A short description of pairs and vocabularies."""
        return (
            f"{len(train):,} pairs to learn from, {len(validation):,} to validate on; vocabularies of "
            f"{self.source_tokenizer.size:,} and {self.target_tokenizer.size:,} tokens"
        )

    def shorter(self, split: str, limit: int) -> str:
        """The settings that make pairs shorter, for messages."""
        return (
            f"leave long pairs out: data.maximum_tokens={limit - self.around}"
            if split == "training"
            else "shorten data.validation"
        )

    @property
    def group_names(self) -> tuple[str, ...]:
        """The target languages."""
        return self.languages

    def groups(self, data: TokenStore) -> dict[str, list[int]]:
        """The rows of each target language, by their tags; empty for one language."""
        if not self.languages:
            return {}
        names = {self.source_tokenizer.id_of(tag(language)): language for language in self.languages}
        rows: dict[str, list[int]] = {language: [] for language in self.languages}
        for row in range(len(data)):
            rows[names[int(data.sequence("source", row)[0])]].append(row)
        return rows

    def texts(self, data: TokenStore, rows: Sequence[int]) -> list[tuple[str, str]]:
        """Pairs of a token store, decoded to texts without tags."""
        return [
            (
                self.source_tokenizer.decode(data.sequence("source", row).tolist()),
                self.target_tokenizer.decode(data.sequence("target", row).tolist()),
            )
            for row in rows
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizers into `folder`; return the other values for regard.json."""
        if self.shared:
            self.source_tokenizer.save(folder)
        else:
            self.source_tokenizer.save(folder / "source")
            self.target_tokenizer.save(folder / "target")
        languages = {"languages": list(self.languages)} if self.languages else {}
        around = {"surrounded": True} if self.surrounded else {}
        generation = asdict(self.generation)
        return {"name": self.name, "shared": self.shared, **languages, **around, "generation": generation}

    @property
    def use(self) -> list[str]:
        """Example code for the model card."""
        asked = f', to="{self.languages[0]}"' if self.languages else ""
        others = f"  # or {', '.join(self.languages[1:])}" if self.languages else ""
        return [f'print(model.translate("..."{asked}).text){others}']

    def unsupported_reason(self, config: Any) -> str:
        """Why other programs cannot read texts in the same way as these tokenizers, for messages; empty if they can."""
        return pair_obstacle(self.source_tokenizer, self.target_tokenizer, config.target_vocabulary, self.surrounds)

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:
        """Write tokenizer_config.json and generation_config.json, if a Hugging Face config can represent the model."""
        if opens:
            never = sorted(self.tag_ids)
            write_generation_config(
                folder,
                self.target_tokenizer,
                self.generation,
                start_id=self.start_id,
                maximum=config.maximum_positions,
                never=never,
            )

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> TranslationTask:
        """The task that `save` wrote into `folder`; `values` are those that it returned."""
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
        return cls(
            source, target, generation, languages, coerced(values.get("surrounded", False), bool, f"{where}.surrounded")
        )


def tag(language: str) -> str:
    """The tag of a target language, the first token of a source.

    >>> tag("de")
    '<2de>'
    """
    return f"<2{language}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """One translation.

    Arguments:
        text: the best translation.
        score: the score by which hypotheses were ranked: log-probability / length penalty + coverage penalty.
        log_probability: the log-probability of the text given the source, natural log.
        source: the source text.
        source_tokens, target_tokens: the tokens of source and translation, with end tokens.
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
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("exact_match", "bleu")
    takes_own_metrics: ClassVar[bool] = True

    def quantised(self, precision: Precision) -> Translator:
        """The same model for faster inference on a processor, by compiled kernels.

        The model itself does not change. `regard evaluate MODEL PAIRS dtype=int8` measures the effect of quantisation.

        Arguments:
            precision: `int8` or `int4`, see `regard.quantization.QuantizedWeights`; for a Transformer also `float32` or
                `bfloat16`, for the kernels without quantisation.

        Raises:
            InputError: for a model that is neither a Transformer nor recurrent, is on another device, or is being recorded.
        """
        recurrent = isinstance(self.model, RecurrentEncoderDecoder)
        prepared = (quantized_recurrent if recurrent else InferenceTransformer)(self.model, precision)
        return Translator(prepared, self.task, recipe=self.recipe, metrics=self.metrics)

    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids of a text; with several target languages they begin with the language tag."""
        return self.task.encode_sources([text], to)[0]

    @property
    def never(self) -> tuple[int, ...]:
        """The language tags, which are never generated."""
        return self.task.tag_ids

    def translate(self, text: str, settings: GenerationSettings | None = None, *, to: str | None = None) -> Translation:
        """Translate one text.

        Arguments:
            text: a text in the source language, not empty.
            settings: how to decode; None = the settings of the folder.
            to: the target language, for a model with several.

        Raises:
            InputError: for an empty text or one longer than the model's positions, and for a language that is missing or that the
                model does not have.
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
        """Translate many texts, in batches of similar length; the results are in the order of the texts.

        Arguments:
            texts: texts in the source language, none empty.
            settings: how to decode; None = the settings of the folder.
            to: the target language, for a model with several.
            batch_size: texts per batch; it affects memory and speed, but not the results.

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
            source_tokens=tuple(source.tokens(self.task.whole(ids))),
            target_tokens=written_tokens(self.task, best),
            alternatives=tuple((target.decode(other.tokens), other.score) for other in found[1:]),
        )

    def teacher_forced(self, pairs: Sequence[tuple[str, str]], *, to: str | None = None) -> PairBatch:
        """Pairs of texts as a training batch, on the model's device.

        Raises:
            InputError: for a language `to` that is missing or that the model does not have.
        """
        sources = self.task.encode_sources([source for source, _ in pairs], to)
        targets = self.task.target_tokenizer.encode_batch([target for _, target in pairs])
        return self.task.batch(sources, targets).to(self.device)

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Exact match and BLEU on about `count` validation pairs, the first ones of each language."""
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
        return {name: metrics.get(name, 0.0) for name in (*self.metric_names, *own_metrics(self.task.name))}


LanguagePart = PairPart[Pair]
Row = tuple[list[int], list[int]]


def prepare_pairs(
    data: TranslationData,
    tokenizer: PairTokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[TranslationTask]:
    """Read the data once for the tokenizers and once for the tokens, and write both to `folder`.

    Arguments:
        folder: the folder of tokenizers and token stores; existing ones are reused (in a resumed run).
        seed: the seed of builtin data, and of the choice of held-out pairs.
        given, given_validation: pairs of texts in memory, instead of the files in `data`.

    Raises:
        InputError: for data that cannot be read, or too little data.
    """

    def around(source: Tokenizer, target: Tokenizer) -> bool:
        """Whether texts have a start and an end token, as with the tokenizer of a BART."""
        return tokenizer.path is not None and source.surrounds and target.surrounds

    def write() -> tuple[TranslationTask, list[str]]:
        (folder / "tokenizer.json").unlink(
            missing_ok=True
        )  # a preparation that was killed may have left a shared tokenizer, which must not replace the two of this one
        for side in SIDES:
            shutil.rmtree(folder / side, ignore_errors=True)
        parts = _parts(data, seed, given, given_validation)
        (source, target), notes = _tokenizers(parts, tokenizer)
        task = TranslationTask(source, target, generation, data.languages, around(source, target))
        task.save(folder)
        for part in parts:
            _check_covered(part, source, target, tokenizer)
        columns = {"source": source.size, "target": target.size}
        for split in (TRAIN, VALIDATION):
            places = Places()
            rows = itertools.chain.from_iterable(_rows(part, split, source, target, places) for part in parts)
            TokenStore.write(folder / split, columns, rows)
            places.keep(folder, split)
        for part in parts:
            if part.dropped and not part.kept:
                raise InputError(
                    f"no pair is left to train on: all {part.dropped} are longer than {part.name}.maximum_tokens; raise it"
                )
        return task, [*notes, *(note for part in parts for note in part.notes(*_left_out(part)))]

    def again() -> TranslationTask:
        written = TranslationTask.load(folder, {"shared": (folder / "tokenizer.json").is_file()})
        return replace(written, generation=generation, languages=data.languages, surrounded=around(*written.sides))

    return prepare(TranslationTask, folder, write, again=again)


def _parts(data: TranslationData, seed: int, given: Any, given_validation: Any) -> list[LanguagePart]:
    """The pairs of each target language; a single part has the name `data`."""
    if data.targets is not None and (given is not None or given_validation is not None):
        raise InputError("pairs in memory belong to no language; name files under data.targets")
    sections = {f"data.targets.{name}": part for name, part in (data.targets or {}).items()} or {"data": data}
    return [
        PairPart(
            name=name,
            data=part,
            splits=PAIRS.splits(
                part, seed, given, given_validation, where=name, builtin=_builtin(part, seed), what="pairs"
            ),
        )
        for name, part in sections.items()
    ]


def _language(part: LanguagePart) -> str | None:
    """The target language of a part; None for a model of one language."""
    return None if part.name == "data" else part.name.rpartition(".")[2]


def _builtin(data: TranslationData, seed: int) -> tuple[Reader[Pair], Reader[Pair]] | None:
    """The readers of builtin pairs for training and validation; None if the data are files."""
    builtin = data.builtin
    if builtin is None:
        return None

    def reader(split: str, size: int) -> Reader[Pair]:
        builtin.pairs(split, size, seed)  # raises an error for too little data now, not after the other split was read
        return lambda _: (
            Pair(source=source, target=target, file=split, line=line)
            for line, (source, target) in enumerate(builtin.pairs(split, size, seed), start=1)
        )

    return reader(TRAIN, builtin.size), reader(VALIDATION, builtin.validation_size)


def _tokenizers(
    parts: Sequence[LanguagePart], settings: PairTokenizerSettings
) -> tuple[tuple[Tokenizer, Tokenizer], list[str]]:
    """The tokenizers of source and target, which can be the same, and messages about choices."""
    tags = tuple(tag(language) for part in parts if (language := _language(part)) is not None)
    notes: list[str] = []

    def texts(sides: tuple[int, ...]) -> Iterator[str]:
        for part in parts:
            for pair in part.splits.everything():
                both = (pair.source, pair.target)
                yield from (both[side] for side in sides)
            alphabet = part.data.builtin.alphabet() if part.data.builtin is not None else None
            if alphabet is not None:  # a small sample may not contain all symbols
                yield from (alphabet[side] for side in sides)

    def trained(*sides: int) -> Tokenizer:
        kind: str = settings.kind
        if kind == "auto":
            kind, why = suited_kind(texts(sides))
            whose = " and ".join(SIDES[side] for side in sides)
            notes.append(f"tokenizer of the {whose}: {kind}; {why}. tokenizer.kind chooses another.")
        return Tokenizer.train(
            texts(sides),
            kind=kind,
            size=settings.size,
            lowercase=settings.lowercase,
            extra_tokens=tags if 0 in sides else (),
            sentinels=settings.sentinels,
        )

    if settings.path is not None:
        both = Tokenizer.load(settings.path)
        missing = [name for name in tags if name not in both.extra_tokens]
        if missing:
            raise InputError(
                f"tokenizer.path: {settings.path} has no special token {missing[0]}, which data.targets needs; "
                "leave the path out to train one that has it"
            )
        return (both, both), notes
    if settings.shared:
        both = trained(0, 1)
        return (both, both), notes
    return (trained(0), trained(1)), notes


def _rows(part: LanguagePart, split: str, source: Tokenizer, target: Tokenizer, places: Places) -> Iterator[Row]:
    """Token ids of the pairs of one split, with the language tag first in the source; too long pairs are left out of training."""
    language, limit = _language(part), part.data.maximum_tokens
    before = [] if language is None else [source.id_of(tag(language))]
    pairs = part.splits.train() if split == TRAIN else part.splits.validation()
    for chunk in in_chunks(pairs):
        sources = source.encode_batch([pair.source for pair in chunk])
        targets = target.encode_batch([pair.target for pair in chunk])
        for pair, left, right in zip(chunk, sources, targets, strict=True):
            row = [*before, *left], right
            if split == TRAIN and limit is not None and max(map(len, row)) > limit:
                part.dropped += 1
            else:
                part.kept += split == TRAIN
                places.note(pair.file, pair.line)
                yield row


def _left_out(part: LanguagePart) -> list[str]:
    """A message about pairs that were left out because they are too long, if there are any."""
    if not part.dropped:
        return []
    return [
        f"{part.dropped} of {part.splits.count} pairs are longer than data.maximum_tokens = {part.data.maximum_tokens} and were "
        "left out."
    ]


def _check_covered(part: LanguagePart, source: Tokenizer, target: Tokenizer, settings: PairTokenizerSettings) -> None:
    """Refuse a vocabulary without all symbols of builtin data: unknown symbols cannot be distinguished or generated."""
    alphabet = part.data.builtin.alphabet() if part.data.builtin is not None else None
    for tokenizer, text in zip((source, target), alphabet or (), strict=False):
        if tokenizer.unknown_id is not None and tokenizer.unknown_id in tokenizer.encode(text):
            raise InputError(
                f"the tokenizer of {tokenizer.size} tokens does not know all {len(text.split())} symbols of {part.name}; "
                f"raise tokenizer.size = {settings.size}"
                + (f", or leave out tokenizer.path = {settings.path}" if settings.path is not None else "")
            )


def translation_from_hf(folder: Path, config: Any) -> TranslationTask:
    """The task of a folder of another program, with the tokenizer from `foreign_pair_tokenizer`."""
    tokenizer, generation = foreign_pair_tokenizer(folder, config)
    return TranslationTask(tokenizer, tokenizer, generation, surrounded=tokenizer.surrounds)


TRANSLATION = TaskSpec(
    task=TranslationTask,
    predictor=Translator,
    interface="encoder_decoder",
    sections={"data": TranslationData, "tokenizer": PairTokenizerSettings, "generation": GenerationSettings},
    prepare=prepare_pairs,
    evaluate=evaluate,
    examples=PAIRS,
    derived_config={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    from_hf=translation_from_hf,
)
