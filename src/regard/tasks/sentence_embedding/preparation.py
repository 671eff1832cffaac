"""From pairs and triples of texts to token stores that a sentence encoder is trained on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.checkpoints import located
from regard.embeddings.sentence_transformers import SentenceModules, read_modules
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.encoders import TEXT
from regard.tasks.examples import Splits, given_or
from regard.tasks.preparation import (
    SETTINGS,
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Prepared,
    cleared,
    encoder_tokenizer,
    finish,
    is_prepared,
    opened,
    settings_of,
    write_store,
)
from regard.tasks.sentence_embedding.data import SentenceData
from regard.tasks.sentence_embedding.examples import Given, SentenceExample, in_memory, reader
from regard.tasks.sentence_embedding.task import NEGATIVE, PAIR, SCORE, SentenceEmbeddingTask, stored

"""What preparation decided of the task, beside the stores."""


def prepare_sentences(
    data: SentenceData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[SentenceEmbeddingTask]:
    """Read the data for the tokenizer and the range of its numbers, then for the tokens, and leave all in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of held-out examples.
        given, given_validation: examples in memory instead of what `data` names: `SentenceExample`s, or (first, second), (first,
            second, number), (first, second, one that does not belong).

    Raises:
        InputError: for data that cannot be read, too little of it, or examples of another form than the objective needs.
    """
    if not is_prepared(folder):
        train = given_or(in_memory(given), reader(data, data.train), "training")
        if train is None:
            raise InputError("data.train is missing; name a file of pairs of texts")
        validation = given_or(in_memory(given_validation), reader(data, data.validation), "validation")
        splits = Splits(train, validation, share=data.validation_share, seed=seed)
        cleared(folder)
        first = next(splits.everything(), None)
        if first is None:
            raise InputError("the training data has no example that can be used; give some")
        objective = data.chosen
        if data.objective == "auto" and given is not None:
            objective = "ranking" if first.score is None else "cosine"
        start = _modules(tokenizer)
        if start is not None and start.dense:
            raise InputError(
                "the model to start from has linear maps behind its pooling, which are not trained; start from another, or from "
                "its encoder alone"
            )
        _check_form(first, objective, len(first.texts), first.score is not None)
        lowest, highest = _range(data, splits) if objective == "cosine" else (0.0, 1.0)
        task = SentenceEmbeddingTask(
            tokenizer=encoder_tokenizer(tokenizer, lambda: (text for each in splits.train() for text in each.texts)),
            maximum_length=data.maximum_length,
            pooling=data.pooling if data.pooling is not None else start.pooling if start is not None else ("mean",),
            normalise=data.normalise if data.normalise is not None else start is None or start.normalise,
            lowercase=start is not None and start.lowercase,
            sentences=tokenizer.sentences,
            prompts={} if start is None else start.prompts,
            prompt=None if start is None else start.prompt,
            objective=objective,
            scale=data.scale,
            margin=data.margin,
            lowest=lowest,
            highest=highest,
        )
        parts = len(first.texts) if objective != "cosine" else 2
        cut = [
            _write(folder, task, TRAIN, splits.train(), parts),
            _write(folder, task, VALIDATION, splits.validation(), parts),
        ]
        replace_file(folder / SETTINGS, json.dumps(task.save(folder)))
        notes = splits.notes
        if sum(cut):
            notes.append(
                f"{sum(cut):,} texts were longer than data.maximum_length = {task.maximum_length} tokens and were cut."
            )
        finish(folder, notes)
    settings = settings_of(folder)
    return opened(SentenceEmbeddingTask.load(folder, settings), folder)


def _modules(tokenizer: EncoderTokenizerSettings) -> SentenceModules | None:
    """What stands around the encoder that training starts from, where sentence-transformers wrote it down."""
    if tokenizer.path is None:
        return None
    place = located(tokenizer.path)
    return read_modules(place) if place.is_dir() else None


def _check_form(example: SentenceExample, objective: str, texts: int, rated: bool) -> None:
    """Refuse an example that the objective cannot be learnt from, or of another form than the first.

    Raises:
        InputError: naming where it stands.
    """
    if objective == "cosine" and example.score is None:
        raise InputError(f"{example.where}: has no number; the objective cosine needs one for each pair")
    if objective == "triplet" and len(example.texts) < 3:
        raise InputError(f"{example.where}: has two texts; the objective triplet needs a third that does not belong")
    if len(example.texts) != texts or (example.score is not None) != rated:
        raise InputError(f"{example.where}: is of another form than the first example; all must be of one")


def _range(data: SentenceData, splits: Splits[SentenceExample]) -> tuple[float, float]:
    """The numbers that mean a cosine of 0 and of 1."""
    if data.lowest is not None and data.highest is not None:
        return data.lowest, data.highest
    scores = [example.score for example in splits.train() if example.score is not None]
    lowest = min(scores, default=0.0) if data.lowest is None else data.lowest
    highest = max(scores, default=1.0) if data.highest is None else data.highest
    if lowest >= highest:
        raise InputError(
            f"the numbers go from {lowest:g} to {highest:g}; give data.lowest and data.highest, or pairs that are not all alike"
        )
    return lowest, highest


def _write(
    folder: Path, task: SentenceEmbeddingTask, split: str, examples: Iterator[SentenceExample], parts: int
) -> int:
    """Write the store of a split; returns how many texts were cut."""
    cut = 0
    form: SentenceExample | None = None

    def rows() -> Iterator[Sequence[Sequence[int]]]:
        nonlocal cut, form
        while chunk := list(itertools.islice(examples, 512)):
            form = form or chunk[0]
            for example in chunk:
                _check_form(example, task.objective, len(form.texts), form.score is not None)
            columns = [
                task.encode([example.texts[side] for example in chunk], maximum=1 << 30) for side in range(parts)
            ]
            for number, example in enumerate(chunk):
                texts = [column[number] for column in columns]
                cut += sum(len(ids) > task.maximum_length for ids in texts)
                end = [task.tokenizer.end_id]
                kept = [
                    ids if len(ids) <= task.maximum_length else ids[: task.maximum_length - 1] + end for ids in texts
                ]
                yield [*kept, [stored(example.score)]]

    size = task.tokenizer.size
    columns = dict.fromkeys((TEXT, PAIR, NEGATIVE)[:parts], size) | {SCORE: 1 << 32}
    write_store(folder, split, columns, rows())
    return cut
