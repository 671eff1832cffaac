"""The entities of a text, with the five strategies by which `transformers`' pipeline aggregates tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.tagging import Tagger


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A token, or the tokens of a word.

    Arguments:
        text: the token as it is in the vocabulary, or the word.
        scores: (tags,) float32 probabilities.
        start, end: offsets in the text, in characters.
        goes_on: whether it continues the word of the token before it.
    """

    text: str
    scores: np.ndarray
    start: int
    end: int
    goes_on: bool = False

    @property
    def best(self) -> int:
        """The number of the most probable tag."""
        return int(self.scores.argmax())

    @property
    def score(self) -> np.float32:
        """The probability of the most probable tag."""
        return self.scores.max()


def aggregated(predictor: Tagger, text: str, strategy: str) -> list[dict[str, Any]]:
    """The tokens of a text with their tags (strategy `none`), or its entities.

    As in `TokenClassificationPipeline`: an entity is a run of tokens (`simple`), or of words (other strategies), of one type, in
    which no later one has a B- tag. A word has the tag of its first token (`first`), of its token with the highest probability
    (`max`), or the tag whose probability averaged over its tokens is highest (`average`). The score of an entity is the mean
    over its tokens or words. Words are those of the tokenizer.

    Returns:
        A mapping for each token or entity: `entity` or `entity_group`, `score`, `word`, `start` and `end` (in characters).

    Raises:
        InputError: for a text longer than the model's maximum length.
    """
    parts, names = _tokens(predictor, text), predictor.task.tags

    def join(found: Sequence[_Part]) -> str:
        decoder = predictor.task.tokenizer.library.decoder
        texts = [part.text for part in found]
        return " ".join(texts) if decoder is None else decoder.decode(texts)

    if strategy not in ("none", "simple"):
        parts = [_word(each, strategy, join(each)) for each in _grouped(parts, lambda before, part: part.goes_on)]
    if strategy == "none":
        return [_row("entity", names[part.best], part.score, part.text, [part]) for part in parts]

    def same(before: _Part, part: _Part) -> bool:
        tag = names[part.best]
        return not tag.startswith("B-") and _unmarked(tag) == _unmarked(names[before.best])

    found = []
    for group in _grouped(parts, same):
        score = np.mean([part.score for part in group], dtype=np.float32)
        found.append(_row("entity_group", type_of(names[group[0].best]), score, join(group), group))
    return found


def type_of(tag: str) -> str:
    """The type in a tag: the part behind the first dash.

    >>> type_of("B-PER"), type_of("O")
    ('PER', 'O')
    """
    return tag.split("-", 1)[-1]


def _row(key: str, label: str, score: np.float32, word: str, parts: Sequence[_Part]) -> dict[str, Any]:
    return {key: label, "score": float(score), "word": word, "start": parts[0].start, "end": parts[-1].end}


def _tokens(predictor: Tagger, text: str) -> list[_Part]:
    from regard.tasks.encoders import join

    tokenizer = predictor.task.tokenizer
    ids = tokenizer.encode(text)
    joined = join(tokenizer, ids, maximum=predictor.maximum_length)
    if joined.cut:
        raise InputError(
            f"inputs: a text has {len(joined.ids) + joined.cut:,} tokens, and with an aggregation_strategy the model reads "
            f"{predictor.maximum_length:,} at once; leave that out, or shorten the text"
        )
    ((_, _, encoded),) = predictor.encoded([joined])
    scores = encoded.logits[0, 1 : 1 + len(ids)].float().softmax(dim=-1).cpu().numpy()  # type: ignore[index]
    library = tokenizer.library
    encoding = library.encode(text, add_special_tokens=False)
    prefix = getattr(library.model, "continuing_subword_prefix", None)
    found = []
    for index, token, (start, end), own in zip(ids, tokenizer.tokens(ids), encoding.offsets, scores, strict=True):
        standing = text[start:end]
        if index == tokenizer.unknown_id:
            token, goes_on = standing, False
        elif prefix:
            goes_on = len(token) != len(standing)
        else:
            goes_on = start > 0 and " " not in text[start - 1 : start + 1]
        found.append(_Part(text=token, scores=own, start=start, end=end, goes_on=goes_on))
    return found


def _grouped(parts: Sequence[_Part], joins: Callable[[_Part, _Part], bool]) -> Iterator[list[_Part]]:
    """Split into runs; `joins` tells whether a part belongs to the run of the part before it."""
    group: list[_Part] = []
    for part in parts:
        if group and not joins(group[-1], part):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _word(parts: Sequence[_Part], strategy: str, text: str) -> _Part:
    if strategy == "average":
        scores = np.mean([part.scores for part in parts], axis=0)
    else:
        scores = (parts[0] if strategy == "first" else max(parts, key=lambda part: part.score)).scores
    return _Part(text=text, scores=scores, start=parts[0].start, end=parts[-1].end)


def _unmarked(tag: str) -> str:
    return tag[2:] if tag.startswith(("B-", "I-")) else tag
