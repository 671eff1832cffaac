"""BERT's tokenizer (Devlin et al. 2019): its layout around a vocabulary, and learning that vocabulary from text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.text.feeding import TooSmall, learn, spool

PADDING, UNKNOWN, CLASSIFICATION, SEPARATOR, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
LONGEST_WORD = 100
"""Characters; a longer word is unknown as a whole."""

# A character at least this frequent is never left out of a vocabulary.
_COMMON = 1e-5


def backend_of(
    vocabulary: Mapping[str, int],
    *,
    lowercase: bool,
    strip_accents: bool | None = None,
    space_chinese: bool = True,
    extra_tokens: Sequence[str] = (),
) -> tokenizers.Tokenizer:
    """BERT's tokenizer around a vocabulary that has the special tokens.

    Text is cleaned (control characters go, all white space becomes spaces), split at white space and around every mark of
    punctuation and Chinese character; each word is the longest piece that begins it, then the longest that goes on, and so on;
    a word for which that fails is `[UNK]`.

    Arguments:
        vocabulary: piece to id; pieces inside a word begin with `##`.
        lowercase: whether case is dropped.
        strip_accents: whether accents are; null as published, with case.
        space_chinese: whether every Chinese character is a word.
        extra_tokens: further special tokens, which get the ids after the vocabulary.

    >>> vocabulary = {piece: index for index, piece in enumerate([*SPECIAL, "un", "##aff", "##able"])}
    >>> backend_of(vocabulary, lowercase=True).encode("Unaffable").tokens
    ['[CLS]', 'un', '##aff', '##able', '[SEP]']
    """
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(
            vocab=dict(vocabulary),
            unk_token=UNKNOWN,
            max_input_chars_per_word=LONGEST_WORD,
            continuing_subword_prefix=CONTINUATION,
        )
    )
    tokenizer.normalizer = _normaliser(lowercase, strip_accents, space_chinese)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    tokenizer.add_special_tokens([token for token in SPECIAL if token in vocabulary])
    tokenizer.add_special_tokens(list(extra_tokens))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLASSIFICATION}:0 $A:0 {SEPARATOR}:0",
        pair=f"{CLASSIFICATION}:0 $A:0 {SEPARATOR}:0 $B:1 {SEPARATOR}:1",
        special_tokens=[(token, vocabulary[token]) for token in (CLASSIFICATION, SEPARATOR)],
    )
    return tokenizer


def is_bert(layout: Mapping[str, object]) -> bool:
    """Whether a tokenizer file is of this layout: WordPiece behind BERT's way to clean and split text."""
    parts = [layout.get(part) or {} for part in ("model", "normalizer", "pre_tokenizer")]
    types = [part.get("type") for part in parts if isinstance(part, Mapping)]
    return types == ["WordPiece", "BertNormalizer", "BertPreTokenizer"]


def _normaliser(lowercase: bool, strip_accents: bool | None, space_chinese: bool) -> normalizers.Normalizer:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=space_chinese, strip_accents=strip_accents, lowercase=lowercase
    )


def train_bert(
    texts: Iterator[str], *, size: int, lowercase: bool, extra_tokens: Sequence[str] = ()
) -> tokenizers.Tokenizer:
    """BERT's tokenizer with a vocabulary of at most `size` learnt from `texts`.

    The order is that of the released multilingual one: the special tokens, every character, every character again as it stands
    inside a word, then what was learnt, first the pieces joined first.

    Raises:
        TooSmall: the characters that must be kept take more than `size`.
    """
    room = size - len(SPECIAL) - len(extra_tokens)
    normalise = _normaliser(lowercase, None, True).normalize_str
    counts: Counter[str] = Counter()
    # What must be numbered beforehand are the characters (see `_train_wordpiece` of training.py), so there are two passes.
    with spool() as kept:
        for text in texts:
            normalised = normalise(text)
            counts.update(normalised)
            kept.put(normalised)
        alphabet = _alphabet(counts, room)
        if 2 * len(alphabet) > room:
            raise TooSmall(2 * len(alphabet) + size - room)
        draft = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        # Words that will be unknown teach nothing: too long ones, and those with a character that is left out, here a NUL,
        # which no cleaned text has.
        hopeless = Regex(rf"\A(?:[\s\S]{{{LONGEST_WORD + 1},}}|[\s\S]*\x00[\s\S]*)\z")
        draft.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(hopeless, "removed")]
        )
        trainer = trainers.WordPieceTrainer(
            vocab_size=size - len(extra_tokens),
            min_frequency=2,
            special_tokens=[*SPECIAL, *alphabet, *(CONTINUATION + character for character in alphabet)],
            show_progress=False,
        )
        left_out = {ord(character): "\0" for character in counts.keys() - set(alphabet) if not character.isspace()}
        learn(draft, (text.translate(left_out) if left_out else text for text in kept.texts()), trainer)
    vocabulary = json.loads(draft.to_str())["model"]["vocab"]
    return backend_of(vocabulary, lowercase=lowercase, extra_tokens=extra_tokens)


def _alphabet(counts: Counter[str], room: int) -> list[str]:
    """The characters a vocabulary keeps: all, or where that takes more than half of the room, not the rarest."""
    ordered = sorted(
        (character for character in counts if not character.isspace()), key=lambda each: (-counts[each], each)
    )
    fitting, common = room // 4, _COMMON * counts.total()
    return sorted(each for place, each in enumerate(ordered) if place < fitting or counts[each] >= common)
