"""Text to text: pairs of a source text and a target text, optionally of several tasks with prefixes (Raffel et al. 2020)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.data.batching import Mixing
from regard.data.running_text import split_sentences
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.generation import GenerationSettings, Hypothesis
from regard.reading import read_json_object
from regard.structure import coerced, from_mapping
from regard.tasks.generation_config import foreign_pair_tokenizer, pair_obstacle, write_generation_config
from regard.tasks.language_writing import StopText, Written
from regard.tasks.pairs import (
    COLUMNS,
    PairPart,
    PairPredictor,
    PairTask,
    in_chunks,
    measured,
    written_tokens,
)
from regard.tasks.predictor import Evaluation, refuse_empty
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, encoder_tokenizer, prepare, write_store
from regard.tasks.span_corruption import SentinelTokenizerSettings
from regard.tasks.spec import TaskSpec
from regard.tasks.text_to_text_data import EXAMPLES, Example, TextToTextData
from regard.tasks.text_to_text_data import as_text as as_text
from regard.text import Tokenizer
from regard.text.warnings import warn_of_unknown

PART = "part"
"""The column of a store with the number of a pair's part."""

LONGEST = 512
"""The length limit that is written for other programs if a model has none."""


@dataclass(frozen=True, slots=True)
class TextToTextTask(PairTask):
    """Turns texts into an encoder-decoder's tensors, and its outputs into texts (Raffel et al. 2020, section 2.4).

    Arguments:
        tokenizer: for all texts.
        generation: the default decoding settings.
        prefixes: the prefix of the sources of each part, by its name; under the empty name for a model without parts.
        maximum_source: the maximum number of tokens of a source in training, its end token included; None for no limit.
        mixing: the proportions of the parts in training.
    """

    name: ClassVar[str] = "text_to_text"

    tokenizer: Tokenizer
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    prefixes: Mapping[str, str] = field(default_factory=lambda: {"": ""})
    maximum_source: int | None = None
    mixing: Mixing = field(default_factory=Mixing)

    @property
    def usual(self) -> GenerationSettings:
        """The default decoding settings."""
        return self.generation

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizer of source and target, which is the same."""
        return self.tokenizer, self.tokenizer

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the parts of a mixture."""
        return tuple(name for name in self.prefixes if name)

    def prefix_of(self, part: str | None) -> str:
        """The prefix of a source.

        Arguments:
            part: the name of the part; None for a model without parts, and for a text that already has a prefix.

        Raises:
            InputError: for a part that the model does not have.
        """
        if part is None:
            return self.prefixes.get("", "")
        if part not in self.group_names:
            known = nearest(part, self.group_names) if self.group_names else "the model has none by name; leave it out"
            raise InputError(f"part is {part!r}; {known}")
        return self.prefixes[part]

    def groups(self, data: TokenStore) -> dict[str, list[int]]:
        """The rows of each part of a mixture."""
        if not self.group_names:
            return {}
        numbers = data.numbers(PART)
        return {name: np.flatnonzero(numbers == i).tolist() for i, name in enumerate(self.prefixes)}

    def epoch_rows(self, data: TokenStore) -> Callable[[int], np.ndarray] | None:
        """A function from the number of an epoch to its rows, with the parts in their proportions."""
        if not self.group_names or (self.mixing.limit is None and self.mixing.temperature == 1):
            return None
        sizes = np.bincount(data.numbers(PART), minlength=len(self.prefixes))
        return lambda epoch: self.mixing.rows(sizes, epoch)

    def shorter(self, split: str, limit: int) -> str:
        """The settings that make pairs shorter, for messages."""
        targets = "leave long pairs out" if split == "training" else "shorten them"
        return f"truncate sources (data.maximum_source={limit}); if it is a target, {targets} (data.maximum_target)"

    def texts(self, data: TokenStore, rows: Sequence[int]) -> list[tuple[list[int], str]]:
        """Pairs of a token store: the ids of each source, and its target decoded to text."""
        source, target = COLUMNS
        return [
            (data.sequence(source, row).tolist(), self.tokenizer.decode(data.sequence(target, row).tolist()))
            for row in rows
        ]

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """The numbers of pairs and the size of the vocabulary, as one line."""
        return (
            f"{len(train):,} pairs to learn from, {len(validation):,} to validate on; a vocabulary of "
            f"{self.tokenizer.size:,} tokens"
        )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return the values for regard.json."""
        self.tokenizer.save(folder)
        return {
            "name": self.name,
            "generation": asdict(self.generation),
            "prefixes": dict(self.prefixes),
            "maximum_source": self.maximum_source,
            "mixing": asdict(self.mixing),
        }

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> TextToTextTask:
        """The task that `save` wrote into `folder`, `values` being what it returned."""
        where = f"{folder / 'regard.json'}: task"
        return cls(
            Tokenizer.load(folder),
            from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation"),
            coerced(values.get("prefixes", {"": ""}), dict[str, str], f"{where}.prefixes"),
            coerced(values.get("maximum_source"), int | None, f"{where}.maximum_source"),
            from_mapping(Mixing, values.get("mixing", {}), f"{where}.mixing"),
        )

    @property
    def use(self) -> list[str]:
        """Lines for the model card."""
        asked = f', part="{self.group_names[0]}"' if self.group_names else ""
        return [f'print(model.generate("..."{asked}).text)']

    def unsupported_reason(self, config: Any) -> str:
        """Why other programs would tokenize texts differently, as half a sentence; empty if they would not."""
        del config  # the model's table may have more rows than there are tokens, as for the published T5s
        return pair_obstacle(self.tokenizer, self.tokenizer, self.tokenizer.size)

    def write_for_others(self, folder: Path, config: Any, opens: bool) -> None:
        """Write tokenizer_config.json and generation_config.json if other programs open the model."""
        if opens:
            maximum = getattr(config, "maximum_positions", None) or self.maximum_source or LONGEST
            never = self.tokenizer.sentinels
            write_generation_config(
                folder, self.tokenizer, self.generation, start_id=self.start_id, maximum=maximum, never=never
            )


class TextToText(PairPredictor[TextToTextTask]):
    """A text-to-text model ready to use: texts in, texts out; the prefix of a text defines its task.

    Arguments:
        model: a `Decoder` with `start` and `step`.
        task: tokenizer, prefixes and decoding settings.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    metric_names: ClassVar[tuple[str, ...]] = ("exact_match", "f1", "bleu", "rougeL")

    @property
    def longest(self) -> int | None:
        """The maximum number of tokens of a source, prefix and end token included; None for no limit."""
        limits = [each for each in (self.model.maximum_source_length, self.task.maximum_source) if each is not None]
        return min(limits, default=None)

    def encode_source(self, text: str, to: str | None = None) -> list[int]:
        """The token ids of a text with the prefix of the part `to`."""
        return self.encode([text], part=to)[0]

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that are never generated: sentinels and the unknown token."""
        tokenizer = self.task.tokenizer
        unknown = () if tokenizer.unknown_id in (None, tokenizer.end_id) else (tokenizer.unknown_id,)
        return (*tokenizer.sentinels, *unknown)

    def generate(
        self,
        texts: str | Sequence[str],
        settings: GenerationSettings | None = None,
        *,
        part: str | None = None,
        prefix: str | None = None,
        stop: Sequence[str] = (),
        batch_size: int = 64,
        cut: bool = False,
    ) -> Any:
        """Generate the target of a text, or of several texts.

        Arguments:
            texts: one text, or several, none empty.
            settings: how to decode; None for the settings of the model's folder.
            part: the part of a mixture whose prefix is put before the texts. None: the prefix of a model without parts; for a
                mixture no prefix, the texts must already have one.
            prefix: a prefix to put before the texts instead.
            stop: strings that end a generated text and are not part of it.
            batch_size: the number of texts decoded together. It changes memory and speed, and sampled results.
            cut: whether to truncate a text longer than `longest`, as in training, instead of refusing it.

        Returns:
            A `Written`, or a list of them.

        Raises:
            InputError: for an empty text, one that is too long, an unknown part, and stop strings in beam search.
        """
        if isinstance(texts, str):
            return self.generate([texts], settings, part=part, prefix=prefix, stop=stop, cut=cut)[0]
        encoded = self.encode(texts, part=part, prefix=prefix, cut=cut)
        return self._written(texts, encoded, settings, stop, batch_size)

    def encode(
        self, texts: Sequence[str], *, part: str | None = None, prefix: str | None = None, cut: bool = False
    ) -> list[list[int]]:
        """The token ids of texts with their prefix, without the end token.

        Raises:
            InputError: as `generate`.
        """
        before = self.task.prefix_of(part) if prefix is None else prefix
        refuse_empty(texts)
        whole = [before + text for text in texts]
        encoded = self.task.tokenizer.encode_batch(whole)
        warn_of_unknown(self.task.tokenizer, whole, encoded)
        limit = self.longest
        if limit is None:
            return encoded
        too_long = next((number for number, ids in enumerate(encoded) if len(ids) + 1 > limit), None)
        if too_long is not None and not cut:
            raise InputError(
                f"text {too_long + 1} has {len(encoded[too_long]) + 1} tokens and the model reads {limit}; shorten it, or "
                "truncate it (cut), or divide it into pieces (pieces_of)"
            )
        return [ids[: limit - 1] for ids in encoded]

    def pieces_of(self, text: str, *, part: str | None = None, prefix: str | None = None) -> list[str]:
        """Divide a text into pieces of whole sentences that the model can read, as few as possible; one piece if it fits.

        A sentence that is too long alone is divided between words.

        Arguments:
            part, prefix: the prefix of each piece, as in `generate`.

        Raises:
            InputError: for an unknown part.
        """
        before = self.task.prefix_of(part) if prefix is None else prefix
        limit = self.longest

        def length(piece: str) -> int:
            return len(self.task.tokenizer.encode(before + piece)) + 1

        if limit is None or length(text) <= limit:
            return [text]
        units: list[str] = []
        for sentence in split_sentences(" ".join(text.split())):
            units += [sentence] if length(sentence) <= limit else sentence.split()
        pieces: list[str] = []
        for unit in units:
            if pieces and length(f"{pieces[-1]} {unit}") <= limit:
                pieces[-1] += f" {unit}"
            else:
                pieces.append(unit)
        return pieces

    def validate(self, data: TokenStore, count: int) -> dict[str, float]:
        """Metrics of generated texts for about `count` validation pairs, the first of each part."""
        rows = self.task.groups(data) or {"": range(len(data))}
        share = -(-count // len(rows))
        found: dict[str, float] = {}
        texts: list[str] = []
        references: list[tuple[str]] = []
        for name, mine in rows.items():
            pairs = self.task.texts(data, mine[:share])
            answers = [each.text for each in self._written([""] * len(pairs), [ids for ids, _ in pairs], None, (), 64)]
            wanted = [(target,) for _, target in pairs]
            if name and pairs:
                found |= {f"{metric}.{name}": value for metric, value in self._judged(answers, wanted).items()}
            texts += answers
            references += wanted
        return self._judged(texts, references) | found

    def _judged(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        metrics, _, _ = measured(texts, references, self.task.tokenizer)
        return {name: metrics.get(name, 0.0) for name in self.metric_names}

    def _written(
        self,
        texts: Sequence[str],
        encoded: Sequence[Sequence[int]],
        settings: GenerationSettings | None,
        stop: Sequence[str],
        batch_size: int,
    ) -> list[Written]:
        """The generated texts for sources of token ids; `texts` are the original sources."""
        tokenizer = self.task.tokenizer
        ends = StopText(tokenizer, stop) if stop else None

        def made(number: int, found: Sequence[Hypothesis]) -> Written:
            decoded = [tokenizer.decode(each.tokens) for each in found]
            best, *others = decoded if ends is None else map(ends.cut, decoded)
            return Written(
                text=best,
                prompt=texts[number],
                tokens=written_tokens(self.task, found[0]),
                log_probabilities=found[0].token_log_probabilities,
                finished=found[0].finished,
                alternatives=tuple(others),
            )

        return self.searched(
            encoded,
            (settings or self.task.generation).with_ids(tokenizer),
            made,
            batch_size=batch_size,
            stop=() if ends is None else (ends,),
        )


Row = tuple[list[int], list[int], list[int]]
MixturePart = PairPart[Example]


def prepare_texts(
    data: TextToTextData,
    tokenizer: SentinelTokenizerSettings,
    generation: GenerationSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[TextToTextTask]:
    """Read the data once for the tokenizer and once for the tokens, and write both into `folder`.

    Arguments:
        folder: where to write them; if they exist already (a resumed run), they are reused.
        seed: the seed of the choice of held-out pairs and of the mixing.
        given, given_validation: pairs of texts in memory instead of those of `data`, in a form that `EXAMPLES` accepts.

    Raises:
        InputError: for data that cannot be read, or too little data.
    """

    def again() -> TextToTextTask:
        return TextToTextTask(
            Tokenizer.load(folder),
            generation,
            prefixes={name: part.prefix for name, part in data.named.items()},
            maximum_source=data.maximum_source,
            mixing=data.mixing(seed),
        )

    def write() -> tuple[TextToTextTask, list[str]]:
        parts = _parts(data, seed, given, given_validation)

        def texts() -> Iterator[str]:
            for part in parts:
                for example in part.splits.everything():
                    yield part.data.prefix + example.source
                    yield example.targets[0]

        trained = encoder_tokenizer(tokenizer, texts)
        trained.save(folder)
        columns = {**dict.fromkeys(COLUMNS, trained.size), PART: max(2, len(parts))}
        for split in (TRAIN, VALIDATION):
            rows = (_rows(part, number, split, data, trained) for number, part in enumerate(parts))
            write_store(folder, split, columns, itertools.chain.from_iterable(rows))
        for part in parts:
            if not part.kept:
                raise InputError(f"no pair of {part.name} is left to train on; raise data.maximum_target")
        notes = [note for part in parts for note in part.notes(*_too_long(part, data))]
        return again(), notes + _proportions(parts, data)

    return prepare(TextToTextTask, folder, write, again=again)


def _parts(data: TextToTextData, seed: int, given: Any, given_validation: Any) -> list[MixturePart]:
    """The examples of each part of a mixture; data without parts are called `data`."""
    if data.parts is not None and (given is not None or given_validation is not None):
        raise InputError("pairs in memory belong to no part; name files under data.parts")
    sections = {f"data.parts.{name}" if name else "data": part for name, part in data.named.items()}
    return [
        PairPart(
            name=name,
            data=part,
            splits=EXAMPLES.splits(part, seed, given, given_validation, where=name, what="pairs"),
        )
        for name, part in sections.items()
    ]


def _rows(part: MixturePart, number: int, split: str, data: TextToTextData, tokenizer: Tokenizer) -> Iterator[Row]:
    """The rows of a split: token ids of source (with prefix, truncated) and target, and the number of the part."""
    room = None if data.maximum_source is None else data.maximum_source - 1
    for chunk in in_chunks(part.splits.train() if split == TRAIN else part.splits.validation()):
        sources = tokenizer.encode_batch([part.data.prefix + each.source for each in chunk])
        targets = tokenizer.encode_batch([each.targets[0] for each in chunk])
        for source, target in zip(sources, targets, strict=True):
            if split == TRAIN:
                if data.maximum_target is not None and len(target) + 1 > data.maximum_target:
                    part.dropped += 1
                    continue
                part.kept += 1
                part.cut += room is not None and len(source) > room
            yield source[:room], target, [number]


def _too_long(part: MixturePart, data: TextToTextData) -> Iterator[str]:
    """Messages about sources that were truncated and pairs that were left out because they are too long."""
    if part.cut:
        yield (
            f"of {part.cut} of {part.kept} sources the first {data.maximum_source} tokens are read (data.maximum_source)."
        )
    if part.dropped:
        yield f"{part.dropped} pairs have a target longer than data.maximum_target = {data.maximum_target} and were left out."


def _proportions(parts: Sequence[MixturePart], data: TextToTextData) -> list[str]:
    """A message about the share of each part of a mixture in an epoch."""
    if len(parts) < 2:
        return []
    counts = data.mixing(0).counts(np.array([part.kept for part in parts]))
    shares = ", ".join(
        f"{part.name.rpartition('.')[2]} {count:,} of {part.kept:,} ({count / counts.sum():.1%})"
        for part, count in zip(parts, counts.tolist(), strict=True)
    )
    return [f"an epoch has {counts.sum():,} examples: {shares}."]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextToTextEvaluation(Evaluation):
    """The results of an evaluation: `predictions` are the generated texts.

    Its metrics are `exact_match`, `normalized_match`, `f1`, `position_accuracy` in [0, 1]; `bleu`, `chrf`, `rouge1`, `rouge2`,
    `rougeL` in [0, 100]; `length_ratio`. Which of them are useful depends on the texts: BLEU for translations, ROUGE for
    summaries, matches and F1 for answers.

    Arguments:
        signatures: sacreBLEU's signature of each metric.
        cut: the number of truncated sources.
        note: what could not be computed and why; may be empty.
    """

    signatures: dict[str, str]
    cut: int
    note: str = ""


def evaluate_text_to_text(
    model: TextToText,
    examples: Any,
    settings: GenerationSettings | None = None,
    *,
    part: str | None = None,
    batch_size: int = 64,
) -> TextToTextEvaluation:
    """Generate a text for each source and compare it with the targets.

    Arguments:
        examples: (source, target), or (source, several correct targets), in a form that `EXAMPLES` accepts.
        settings: how to decode; None for the settings of the model's folder.
        part: the part of a mixture whose prefix is put before the sources, as in `TextToText.generate`.
        batch_size: the number of texts decoded together.

    Raises:
        InputError: for an empty list, or an unknown part.
    """
    read = EXAMPLES.to_measure(examples)
    sources = [each.source for each in read]
    written: list[Written] = model.generate(sources, settings, part=part, batch_size=batch_size, cut=True)
    metrics, signatures, note = measured(
        [each.text for each in written], [each.targets for each in read], model.task.tokenizer
    )
    return TextToTextEvaluation(
        metrics=metrics,
        signatures=signatures,
        count=len(read),
        cut=_cut(model, sources, part),
        predictions=tuple(written),
        note=note,
    )


def _cut(model: TextToText, sources: Sequence[str], part: str | None) -> int:
    """The number of sources that are truncated."""
    before, limit = model.task.prefix_of(part), model.longest
    if limit is None:
        return 0
    return sum(len(ids) + 1 > limit for ids in model.task.tokenizer.encode_batch([before + each for each in sources]))


CONFIG = "config.json"
TASKS_THERE, PREFIX = "task_specific_params", "prefix"
"""The keys in config.json of the tasks that a T5 was trained for, and of the prefix of each task."""


def text_to_text_from_hf(folder: Path, config: Any) -> TextToTextTask:
    """The task of a folder that another program wrote: its tokenizer, decoding settings, and the prefixes it knows.

    Arguments:
        config: the config of the model in the folder.

    Raises:
        InputError: if there is no tokenizer.json, or it does not match config.json.
    """
    tokenizer, generation = foreign_pair_tokenizer(folder, config)
    return TextToTextTask(tokenizer, generation, prefixes={"": "", **_prefixes(folder)}, maximum_source=LONGEST)


def _prefixes(folder: Path) -> dict[str, str]:
    """The prefixes in config.json by the name of their task; empty if it has none."""
    tasks = read_json_object(folder / CONFIG, "copy the file again").get(TASKS_THERE)
    found = (
        {} if not isinstance(tasks, dict) else {name: task for name, task in tasks.items() if isinstance(task, dict)}
    )
    return {name: task[PREFIX] for name, task in found.items() if isinstance(task.get(PREFIX), str)}


TEXT_TO_TEXT = TaskSpec(
    task=TextToTextTask,
    predictor=TextToText,
    interface="encoder_decoder",
    sections={"data": TextToTextData, "tokenizer": SentinelTokenizerSettings, "generation": GenerationSettings},
    prepare=prepare_texts,
    evaluate=evaluate_text_to_text,
    examples=EXAMPLES,
    derived_config={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    from_hf=text_to_text_from_hf,
)
