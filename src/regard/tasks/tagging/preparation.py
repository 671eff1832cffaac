"""From sentences of tagged words to token stores that a tagger is trained on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from regard.data.annotated import WORDS
from regard.data.malformed import MalformedRows
from regard.data.rows import listed, parts_of
from regard.data.tagged import TAGS, TaggedSentence, read_tagged
from regard.data.tags import Span, convert, scheme_of, tags_of, types_of
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.encoders import PLACES, columns_of
from regard.tasks.examples import Reader, Splits, given_or
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
from regard.tasks.tagging.data import Place, TaggedData
from regard.tasks.tagging.task import GOES_ON, PLACE, TAG, TaggingTask
from regard.tasks.tagging.windows import read_sentences

Given = Sequence[TaggedSentence] | Sequence[tuple[Sequence[str], Sequence[str]]] | Sequence[Mapping[str, object]]
"""What preparation decided of the task, beside the stores."""

MANY = 1_000
"""More tags than this are taken for a mistake, such as the column of words."""

TOGETHER = 1_024
"""Sentences that are read at once."""


def prepare_tags(
    data: TaggedData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[TaggingTask]:
    """Read the data for its scheme, the tags and the tokenizer, then for the tokens, and leave all in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of held-out sentences.
        given, given_validation: sentences in memory instead of what `data` names: `TaggedSentence`s, or (words, tags).

    Raises:
        InputError: for data that cannot be read, too little of it, or a tag that the training data has not.
    """
    if not is_prepared(folder):
        train = given_or(in_memory(given), reader(data, data.train), "training")
        if train is None:
            raise InputError("data.train is missing; name a file of tagged words")
        validation = given_or(in_memory(given_validation), reader(data, data.validation), "validation")
        splits = Splits(train, validation, share=data.validation_share, seed=seed)
        cleared(folder)
        source, scheme = _schemes(data, splits.everything())
        task = TaggingTask(
            tokenizer=encoder_tokenizer(tokenizer, lambda: (" ".join(sentence.words) for sentence in splits.train())),
            maximum_length=data.maximum_length,
            tags=_tags(data, splits.everything(), source, scheme),
            scheme=scheme,
            context=data.context,
        )
        parted = _write(folder, task, splits, source)
        replace_file(folder / SETTINGS, json.dumps(task.save(folder)))
        notes = splits.notes
        if scheme is not None and source != scheme:
            notes.append(f"The data's tags are {source} and the model's {scheme}.")
        if parted:
            notes.append(
                f"{parted:,} sentences were longer than data.maximum_length = {task.maximum_length} tokens and are read in "
                "overlapping windows."
            )
        finish(folder, notes)
    settings = settings_of(folder)
    return opened(TaggingTask.load(folder, settings), folder)


def reader(data: TaggedData, place: Place | None, *, tagged: bool = True) -> Reader[TaggedSentence] | None:
    """What reads the sentences of a place, in the layout that `data` tells; None without a place."""
    if place is None:
        return None
    path = place if isinstance(place, str) else list(place)

    def read(malformed: MalformedRows) -> Iterator[TaggedSentence]:
        return read_tagged(path, format=data.format, word=data.word, tag=data.tag, tagged=tagged, malformed=malformed)

    return read


def in_memory(given: Given | None) -> list[TaggedSentence] | None:
    """Sentences in memory as `TaggedSentence`s.

    Raises:
        InputError: for something else, or tags that do not fit the words.
    """
    if given is None:
        return None
    found = []
    wanted = "(words, tags), two lists"
    for number, one in enumerate(listed(given, "sentences", wanted), start=1):
        if not isinstance(one, TaggedSentence):
            words, tags = parts_of(one, f"sentence {number}", [WORDS, TAGS], wanted)
            one = TaggedSentence(words=_texts(words, number), tags=_texts(tags, number), file="sentences", line=number)
        if len(one.words) != len(one.tags):
            raise InputError(
                f"{where_of(one)}: {len(one.words)} words and {len(one.tags)} tags; give each word one tag"
            )
        if not one.words:
            raise InputError(f"{where_of(one)}: holds no word; leave it out")
        found.append(one)
    return found


def _texts(given: object, number: int) -> tuple[str, ...]:
    if isinstance(given, list | tuple):
        given = [str(text) if type(text) is int else text for text in given]  # the library `datasets` numbers its tags
    if not isinstance(given, list) or not all(isinstance(text, str) and text for text in given):
        raise InputError(f"sentence {number}: {given!r:.80} is no list of words or tags; give (words, tags), two lists")
    return tuple(given)


def where_of(sentence: TaggedSentence) -> str:
    """How a message calls a sentence."""
    return f"{sentence.file}, the sentence in line {sentence.line}"


def documents_of(sentences: Iterable[TaggedSentence]) -> Iterator[int]:
    """The number of each sentence's document.

    A document ends with its file, and wherever more than one empty line parts two sentences: there a -DOCSTART- line stood, a
    sentence was malformed, or was held out.
    """
    number, before = 0, None
    for sentence in sentences:
        if before is not None:
            steps = sentence.line - before.line  # in JSONL and in memory each sentence is a line, in columns each word
            number += sentence.file != before.file or steps not in (1, len(before.words) + 1)
        before = sentence
        yield number


def _schemes(data: TaggedData, sentences: Iterator[TaggedSentence]) -> tuple[str | None, str | None]:
    """The scheme of the data's tags and that of the model's; None where tags are no spans.

    Raises:
        InputError: where the recipe asks for spans and the tags are none.
    """
    if data.scheme == "none":
        return None, None
    try:
        source = scheme_of(sentence.tags for sentence in sentences)
    except InputError as error:
        if data.scheme == "auto":
            return None, None
        raise InputError(f"data.scheme is {data.scheme!r}, but {error}, or data.scheme=none") from None
    return source, source if data.scheme == "as_given" else "BIO" if data.scheme == "auto" else data.scheme.upper()


def _tags(
    data: TaggedData, sentences: Iterator[TaggedSentence], source: str | None, scheme: str | None
) -> tuple[str, ...]:
    """The model's tags: those that the recipe names, else those of the training data, the outside tag first."""
    if data.tags is not None:
        return data.tags
    if source is None or scheme is None:
        found = {tag for sentence in sentences for tag in sentence.tags}
        if len(found) > MANY:
            raise InputError(
                f"the training data has {len(found):,} different tags, such as {min(found)!r}; name the right column with "
                "data.tag"
            )
        if len(found) < 2:
            raise InputError(f"all words of the training data have the tag {found.pop()!r}; give some with another")
        return tuple(sorted(found))
    types = list(types_of((sentence.tags for sentence in sentences), source))
    if not types:
        raise InputError("all words of the training data have the tag 'O'; give some with another")
    if len(types) > MANY:
        raise InputError(
            f"the training data has {len(types):,} types of spans, such as {types[0]!r}; name the right column with data.tag"
        )
    return ("O", *(tag for type in types for tag in all_tags(type, scheme)))


def all_tags(type: str, scheme: str) -> list[str]:
    """Every tag that a scheme has for a type.

    >>> all_tags("PER", "BIOES")
    ['B-PER', 'I-PER', 'E-PER', 'S-PER']
    """
    return list(dict.fromkeys(tags_of([Span(type, 0, 3), Span(type, 3, 4)], 4, scheme)))


def numbers_of(task: TaggingTask, sentence: TaggedSentence, source: str | None) -> list[int]:
    """The numbers of a sentence's tags, as the model writes them.

    Arguments:
        source: the scheme they are in.

    Raises:
        InputError: for a tag that is none of the scheme's, or of the model's, naming file and line.
    """
    tags: Sequence[str] = sentence.tags
    if source is not None and task.scheme is not None:
        try:
            tags = convert(tags, source, task.scheme)
        except InputError as error:
            raise InputError(f"{where_of(sentence)}: {error}; all data must be in one scheme") from None
    return [
        task.number_of(tag, f"{where_of(sentence)}: the word {sentence.words[place]!r}")
        for place, tag in enumerate(tags)
    ]


def _write(folder: Path, task: TaggingTask, splits: Splits[TaggedSentence], source: str | None) -> int:
    """Write the stores of both splits; returns how many sentences take more than one window."""
    parted = 0

    def rows(sentences: Iterator[TaggedSentence]) -> Iterator[Sequence[Sequence[int]]]:
        nonlocal parted
        for chunk in _chunks(sentences, task.context):
            tags = [numbers_of(task, sentence, source) for sentence in chunk]
            found = read_sentences(
                task.tokenizer,
                [sentence.words for sentence in chunk],
                maximum=task.maximum_length,
                context=task.context,
                documents=list(documents_of(chunk)),
            )
            for windows, numbers in zip(found, tags, strict=True):
                parted += len(windows) > 1
                waiting = iter(numbers)
                for place, window in enumerate(windows):
                    own = list(itertools.islice(waiting, len(window.places)))
                    yield window.ids, [0], window.places, own, [int(place > 0)]

    columns = {**columns_of(task.tokenizer), PLACE: PLACES, TAG: len(task.tags), GOES_ON: 2}
    write_store(folder, TRAIN, columns, rows(splits.train()))
    write_store(folder, VALIDATION, columns, rows(splits.validation()))
    return parted


def _chunks(sentences: Iterator[TaggedSentence], context: int) -> Iterator[list[TaggedSentence]]:
    """Sentences to be read together: with context whole documents, of which none is taken for longer than `TOGETHER`."""
    if not context:
        while chunk := list(itertools.islice(sentences, TOGETHER)):
            yield chunk
        return
    first, second = itertools.tee(sentences)
    for _, group in itertools.groupby(zip(first, documents_of(second), strict=False), key=lambda pair: pair[1]):
        while chunk := [sentence for sentence, _ in itertools.islice(group, TOGETHER)]:
            yield chunk
