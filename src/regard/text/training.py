"""Training a vocabulary of each kind from raw text, with the `tokenizers` library."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.errors import InputError, nearest
from regard.text import events
from regard.text.bert import SPECIAL, train_bert
from regard.text.bpe import (
    BYTES,
    END_OF_TEXT,
    ROBERTA_FIRST,
    ROBERTA_MASK,
    spelling_backend,
    train_byte_level,
    with_roberta_tokens,
)
from regard.text.sampling import TooSmall, checked, learn, spool

KINDS = ("bpe", "byte_bpe", "roberta", "wordpiece", "bert", "unigram", "word", "character", "spelling", *events.EVENTS)
FIRST_TOKENS = ("</s>", "<unk>")
UNKNOWN = "<unk>"
LAST_TOKEN = "<pad>"
SPECIAL_TOKENS = (*FIRST_TOKENS, LAST_TOKEN)
"""Marian's layout: the end and the unknown token come first; padding, which also starts a target, has the last id."""
SENTINEL = "<extra_id_{}>"
"""The name of T5's sentinels, numbered from 0 in the order of their use."""
SENTINEL_FIRST_TOKENS = ("<pad>", "</s>", "<unk>")
"""T5's layout, for sentinels: padding, which also starts a target, comes first, and the sentinels have the last ids."""
SPACE = "▁"  # U+2581, which represents a space inside a token
CHARACTER_PATTERN = r"[\s\S]"

# Longer sequences without a space are split, because the cost of training and encoding is quadratic in this length.
_LONGEST_PIECE = 100


def train_backend(
    texts: Iterable[str],
    *,
    kind: str,
    size: int,
    lowercase: bool,
    extra_tokens: Sequence[str] = (),
    sentinels: int = 0,
) -> tokenizers.Tokenizer:
    """A trained `tokenizers.Tokenizer` with at most `size` tokens; see `Tokenizer.train` for the kinds.

    Raises:
        InputError: unknown kind, no text, a `size` that is too small for the alphabet, an extra token that could occur in text,
            sentinels for a kind that has none.

    >>> train_backend(["to be or not to be"], kind="word", size=20, lowercase=False).get_vocab_size()
    7
    """
    if kind not in KINDS:
        raise InputError(f"tokenizer kind {kind!r} is not known; {nearest(kind, KINDS)}")
    if kind == "spelling":
        return _spelling(lowercase, extra_tokens, sentinels)
    if kind in events.EVENTS:
        return _events(kind, lowercase, extra_tokens, sentinels)
    bert = kind == "bert"
    sentinel_tokens = _sentinels(sentinels, kind)
    others = ["<s>"] if bert else ["<s>", ROBERTA_MASK] if kind == "roberta" else []
    _check_extra(extra_tokens, (*SPECIAL_TOKENS, *sentinel_tokens, *others))
    if kind == "roberta":
        return _train_roberta(checked(texts), size, lowercase, extra_tokens)
    if kind == "byte_bpe":
        return _train_bytes(checked(texts), size, lowercase, extra_tokens)
    first = SENTINEL_FIRST_TOKENS if sentinels else FIRST_TOKENS
    added = (*extra_tokens, *(sentinel_tokens or [LAST_TOKEN]))
    smallest = len(SPECIAL) + len(extra_tokens) + 2 if bert else len(first) + len(added) + 1
    if size < smallest:
        raise InputError(f"tokenizer size {size} is too small: give at least {smallest}, special tokens included")
    proper = checked(texts)
    if bert:
        try:
            return train_bert(proper, size=size, lowercase=lowercase, extra_tokens=extra_tokens)
        except TooSmall as error:
            raise _too_small(kind, size, error.needed) from None
    train = {
        "bpe": _train_bpe,
        "wordpiece": _train_wordpiece,
        "unigram": _train_unigram,
        "word": _train_word,
        "character": _train_character,
    }[kind]
    try:
        trained = train(proper, size - len(added), lowercase, first)
        needed = trained.get_vocab_size() + len(added)
    except TooSmall as error:
        needed = error.needed + len(added)
        raise _too_small(kind, size, needed) from None
    if needed > size:
        raise _too_small(kind, size, needed)
    # Not part of the model's own vocabulary, so they are never found in a text; they get the ids after it, in this order.
    trained.add_special_tokens(list(added))
    trained.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", trained.token_to_id("</s>"))]
    )
    return trained


_SAMPLED_LINES = 20_000
_SHORT = 100  # characters


def suited_kind(texts: Iterable[str]) -> tuple[str, str]:
    """The kind of tokenizer that fits the texts of one column, `character` or `bpe`, and the reason.

    It is `character` if the lines are short, and either most characters are not letters (numbers, dates, codes) or most words
    of a held-out tenth of the lines do not occur in the rest (names, single words), so that word pieces of one part would not
    cover the other. Otherwise it is `bpe`. The first 20,000 lines are read.

    >>> suited_kind(["17", "305", "9000"])
    ('character', 'digits and signs are most of it')
    >>> suited_kind(["the cat sat on the mat", "the dog sat", "a cat and a dog"] * 10)
    ('bpe', 'its words recur')
    """
    lines = list(itertools.islice(texts, _SAMPLED_LINES))
    length = sum(map(len, lines)) / max(1, len(lines))
    if length > _SHORT:
        return "bpe", f"lines have {length:.0f} characters on average"
    signs = [unicodedata.category(sign)[0] in "LM" for line in lines for sign in line if not sign.isspace()]
    if sum(signs) < len(signs) / 2:
        return "character", "digits and signs are most of it"
    known = {word for number, line in enumerate(lines) if number % 10 for word in line.split()}
    held_out = [word in known for line in lines[::10] for word in line.split()]
    if sum(held_out) < len(held_out) / 2:
        return "character", "most words occur once"
    return "bpe", "its words recur"


def _check_extra(extra_tokens: Sequence[str], taken: Sequence[str]) -> None:
    if isinstance(extra_tokens, str):
        raise InputError(f"extra_tokens is the one string {extra_tokens!r}; give a list of tokens")
    seen = set(taken)
    for token in extra_tokens:
        if not isinstance(token, str) or not re.fullmatch(r"<[^<>\s]+>", token):
            raise InputError(f"the extra token {token!r} is not of the form <name>; write it like '<2de>'")
        if token in seen:
            raise InputError(f"the extra token {token!r} exists already; give each once, and none of {tuple(taken)}")
        seen.add(token)


def _sentinels(count: int, kind: str) -> list[str]:
    """The sentinels in the order of their ids, which is the reverse order of use."""
    if count < 0:
        raise InputError(f"sentinels is {count}; give 0 for none, or a positive number (T5 has 100)")
    if count and kind in ("bert", "byte_bpe", "roberta"):
        raise InputError(f"tokenizer kind {kind!r} has a fixed layout without sentinels; choose unigram, as in T5")
    return [SENTINEL.format(number) for number in reversed(range(count))]


def _spelling(lowercase: bool, extra_tokens: Sequence[str], sentinels: int) -> tokenizers.Tokenizer:
    """ELMo's tokenizer, which has a fixed vocabulary of 259 ids."""
    if extra_tokens or sentinels:
        raise InputError("tokenizer kind 'spelling' has only ELMo's tokens; leave extra tokens and sentinels out")
    return spelling_backend(lowercase=lowercase)


def _events(kind: str, lowercase: bool, extra_tokens: Sequence[str], sentinels: int) -> tokenizers.Tokenizer:
    """A tokenizer of event tokens of music, which has a fixed vocabulary."""
    if lowercase or extra_tokens or sentinels:
        raise InputError(
            f"tokenizer kind {kind!r} has only event tokens of music; leave lowercase, extra tokens and sentinels out"
        )
    return events.backend(kind)


def _too_small(kind: str, size: int, needed: int) -> InputError:
    return InputError(
        f"tokenizer size {size} is too small for kind {kind!r}: the text's characters and the special tokens "
        f"alone take {needed}; give at least that, or choose kind 'character', which keeps only frequent characters"
    )


# --- all kinds except BERT's ------------------------------------------------------------------------------


def _train_bpe(texts: Iterator[str], size: int, lowercase: bool, first: Sequence[str]) -> tokenizers.Tokenizer:
    tokenizer = _marked(models.BPE(unk_token=UNKNOWN), lowercase=lowercase, split_han=False)
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, special_tokens=list(first), show_progress=False)
    learn(tokenizer, texts, trainer)
    return tokenizer


def _train_bytes(texts: Iterator[str], size: int, lowercase: bool, extra_tokens: Sequence[str]) -> tokenizers.Tokenizer:
    """GPT-2's layout: the bytes, the learned pieces, extra tokens, and the one special token last."""
    if lowercase:
        raise InputError("tokenizer kind 'byte_bpe' keeps every byte, so it cannot lower case; leave lowercase out")
    added = [*extra_tokens, END_OF_TEXT]
    if size < BYTES + len(added):
        raise _too_small("byte_bpe", size, BYTES + len(added))
    tokenizer = train_byte_level(texts, size - len(added))
    tokenizer.add_special_tokens(added)
    return tokenizer


def _train_roberta(
    texts: Iterator[str], size: int, lowercase: bool, extra_tokens: Sequence[str]
) -> tokenizers.Tokenizer:
    """RoBERTa's layout: four special tokens, the bytes, the learned pieces, extra tokens, and the mask last."""
    if lowercase:
        raise InputError("tokenizer kind 'roberta' keeps every byte, so it cannot lower case; leave lowercase out")
    least = len(ROBERTA_FIRST) + BYTES + len(extra_tokens) + 1
    if size < least:
        raise _too_small("roberta", size, least)
    tokenizer = train_byte_level(texts, size - len(extra_tokens) - 1, ROBERTA_FIRST)
    tokenizer.add_special_tokens(list(extra_tokens))
    return with_roberta_tokens(tokenizer)


def _train_word(texts: Iterator[str], size: int, lowercase: bool, first: Sequence[str]) -> tokenizers.Tokenizer:
    tokenizer = _marked(_word_level({}), lowercase=lowercase, split_han=True)
    trainer = trainers.WordLevelTrainer(vocab_size=size, special_tokens=list(first), show_progress=False)
    learn(tokenizer, texts, trainer)
    return tokenizer


def _train_wordpiece(texts: Iterator[str], size: int, lowercase: bool, first: Sequence[str]) -> tokenizers.Tokenizer:
    # The library numbers the "##x" characters in the order of a randomly seeded hash table, and ties are broken by that order.
    # Passing them as special tokens fixes their numbers: the same text gives the same vocabulary, and every character is known
    # inside words too. They must be known before training starts, so the text is read twice.
    draft = _marked(models.WordPiece(unk_token=UNKNOWN), lowercase=lowercase, split_han=True)
    normalise = draft.normalizer.normalize_str
    with spool() as kept:
        characters: set[str] = set()
        for text in texts:
            characters.update(normalise(text))
            kept.put(text)
        inner = sorted(character for character in characters - {SPACE} if not character.isspace())
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=[*first, *("##" + character for character in inner)],
            show_progress=False,
        )
        learn(draft, kept.texts(), trainer)
    vocabulary = json.loads(draft.to_str())["model"]["vocab"]
    model = models.WordPiece(vocab=vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=2 * _LONGEST_PIECE)
    tokenizer = _marked(model, lowercase=lowercase, split_han=True, continuation="##")
    tokenizer.add_special_tokens(list(first))
    return tokenizer


def _train_unigram(texts: Iterator[str], size: int, lowercase: bool, first: Sequence[str]) -> tokenizers.Tokenizer:
    draft = _marked(models.Unigram(), lowercase=lowercase, split_han=False)
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(first), unk_token=UNKNOWN, show_progress=False
    )
    normalise = draft.normalizer.normalize_str
    characters: set[str] = set()

    def watched() -> Iterator[str]:
        for text in texts:
            characters.update(normalise(text))
            yield text

    failure: Exception | None = None
    try:
        learn(draft, watched(), trainer)
    except Exception as error:
        if type(error) is not Exception:  # the library raises a bare Exception if the size is too small
            raise
        failure = error
    # All characters and one piece more: with less the library fails, or exceeds the size.
    needed = len(characters) + 1 + len(first)
    if needed > size:
        raise TooSmall(needed)
    if failure is not None:
        raise InputError(f"training the tokenizer failed ({failure}); try another kind or size")
    scores = dict(json.loads(draft.to_str())["model"]["vocab"])
    vocabulary = [(token, 0.0) for token in first] + _settled(scores, first)
    tokenizer = _marked(models.Unigram(vocabulary, first.index(UNKNOWN), False), lowercase=lowercase, split_han=False)
    tokenizer.add_special_tokens(list(first))
    return tokenizer


def _settled(scores: dict[str, float], first: Sequence[str]) -> list[tuple[str, float]]:
    """The pieces with deterministic order and scores.

    The library gives required but useless characters the lowest score, the next one 0.0001 more and so on, in the order of a
    randomly seeded hash table. Here they all get the lowest score. Rounding removes differences from the order of summation.
    """
    pieces = {piece: score for piece, score in scores.items() if piece not in first}
    characters = [piece for piece in pieces if len(piece) == 1]
    lowest = min(pieces.values())
    ceiling = lowest + 0.0001 * len(characters)
    pieces.update({piece: lowest for piece in characters if pieces[piece] <= ceiling})
    rounded = ((piece, round(score, 6)) for piece, score in pieces.items())
    return sorted(rounded, key=lambda item: (-item[1], item[0]))


def _train_character(texts: Iterator[str], size: int, lowercase: bool, first: Sequence[str]) -> tokenizers.Tokenizer:
    normaliser = _normaliser(lowercase=lowercase, marked=False)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normaliser.normalize_str(text))
    kept = sorted(counts, key=lambda character: (-counts[character], character))[: size - len(first)]
    vocabulary = {token: index for index, token in enumerate([*first, *kept])}
    tokenizer = tokenizers.Tokenizer(_word_level(vocabulary))
    tokenizer.normalizer = normaliser
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER_PATTERN), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(first))
    return tokenizer


# --- shared parts -----------------------------------------------------------------------------------------


def _word_level(vocabulary: dict[str, int]) -> models.WordLevel:
    return models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN)


def _normaliser(*, lowercase: bool, marked: bool) -> normalizers.Sequence:
    """Unicode composed form (NFC); with `marked`, every space and the start of the text become U+2581."""
    steps: list[normalizers.Normalizer] = [normalizers.Lowercase()] if lowercase else []
    steps.append(normalizers.NFC())
    if marked:
        steps += [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    return normalizers.Sequence(steps)


def _marked(
    model: models.Model, *, lowercase: bool, split_han: bool, continuation: str | None = None
) -> tokenizers.Tokenizer:
    """A tokenizer whose tokens include the space before them, so that decoding restores it exactly.

    Every punctuation mark, symbol, line break and tab is a separate token; with `split_han`, every Chinese character too.
    """
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = _normaliser(lowercase=lowercase, marked=True)
    han = r"\p{Han}" if split_han else ""
    alternatives = [
        rf"{SPACE}?[^\s{SPACE}\p{{P}}\p{{S}}{han}]{{1,{_LONGEST_PIECE}}}",
        *([rf"{SPACE}?{han}"] if han else []),
        rf"{SPACE}?(?!{SPACE})[\p{{P}}\p{{S}}]",
        SPACE,
        r"\s",
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(alternatives)), "isolated")
    tokenizer.decoder = decoders.Sequence(
        [
            *([decoders.Replace(Regex(f"^{continuation}"), "")] if continuation else []),
            decoders.Replace(SPACE, " "),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer
