"""Documents as what a model reads that tells their sentences apart: a token stands between two of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.data.sentences import split_sentences
from regard.text import Tokenizer

BREAKS = re.compile(r"\n\s*\n|<br\s*/?>", re.IGNORECASE)


def tokens_of(tokenizer: Tokenizer, texts: Sequence[str], *, sentences: bool) -> list[list[int]]:
    """The tokens of texts, without those around a text.

    Arguments:
        sentences: whether the tokenizer's separator stands between the sentences of a text, as `split_sentences` finds them; an
            empty line parts two as well, and so does HTML's `<br />`.

    >>> tokenizer = Tokenizer.train(["it rains . it pours ."], kind="word", size=60)
    >>> (ids,) = tokens_of(tokenizer, ["it rains . It rains ."], sentences=True)
    >>> tokenizer.tokens(ids)
    ['▁it', '▁rains', '▁.', '</s>', '<unk>', '▁rains', '▁.']
    """
    if not sentences:
        return tokenizer.encode_batch(texts)
    parted = [sentences_of(text) for text in texts]
    encoded = iter(tokenizer.encode_batch([sentence for text in parted for sentence in text]))
    return [_joined([next(encoded) for _ in text], tokenizer.separator_id) for text in parted]


def sentences_of(text: str) -> list[str]:
    r"""The sentences of a document, paragraph by paragraph.

    >>> sentences_of("It rains. It pours.\n\nThe end<br /><br />or not")
    ['It rains.', 'It pours.', 'The end', 'or not']
    """
    return [sentence for paragraph in BREAKS.split(text) for sentence in split_sentences(paragraph)]


def _joined(sentences: Sequence[Sequence[int]], separator: int) -> list[int]:
    ids: list[int] = []
    for sentence in sentences:
        if ids and sentence:
            ids.append(separator)
        ids += sentence
    return ids
