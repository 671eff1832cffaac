"""The best size of a subword vocabulary for translation with few and with many pairs, for languages of stems and endings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar

from regard.tasks.loading import load
from regard_claims.shared import check_counts, check_examples, learning, trained

Pairs = list[tuple[str, str]]

STEMS, ENDINGS = 150, 8
CONSONANTS, VOWELS = "bdfgklmnprst", "aeiou"


@dataclass(frozen=True, kw_only=True, slots=True)
class InflectedWords:
    """A Transformer for translation with a subword vocabulary (byte pair encoding) of one size, trained on `pairs` pairs.

    A sampled source has 1 to 3 words. Each word is a stem and one of 8 endings; stem n (from 0) has a probability proportional to
    1 / (n + 5), so few stems are frequent and many are rare. The target has for each word the corresponding stem and ending of
    the other language, in the same order. With whole words as tokens each of the 1,200 words must be learned separately; with
    small subwords a word that was never seen can be composed.

    Measured on test sources are `words right`, the share of words that are right at their position, in per cent; and `tokens per
    word`, the number of tokens for each word of a source.

    Arguments:
        pairs: the number of training pairs.
        vocabulary: the largest number of subwords, shared by both languages.
        width: the width of the Transformer, with one block on each side, 4 heads and feed-forward networks of twice the width.
        test_size: the number of test pairs.
        steps: the number of updates.
        batch_tokens: the number of tokens of both sides in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    pairs: int = 400
    vocabulary: int = 60
    width: int = 64
    test_size: int = 300
    steps: int = 500
    batch_tokens: int = 800
    learning_rate: float = 4e-3

    def __post_init__(self) -> None:
        check_counts(self, "vocabulary", "test_size", "steps", "batch_tokens")
        check_examples(self, "pairs")

    @property
    def measures(self) -> tuple[str, ...]:
        """The share of right words in per cent, and the number of tokens per word."""
        return ("words right", "tokens per word")

    def run(self, seed: int) -> dict[str, float]:
        """Train the model, and measure it on the test pairs."""
        learned, test = inflected(self.pairs, 2 * seed), inflected(self.test_size, 2 * seed + 1)
        with trained(
            "translation",
            {
                "name": "transformer",
                "width": self.width,
                "heads": 4,
                "feedforward_width": 2 * self.width,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "norm": "pre",
                "dropout": 0.1,
            },
            learned,
            seed=seed,
            tokenizer={"kind": "bpe", "size": self.vocabulary, "shared": True},
            training=learning(self, self.batch_tokens),
        ) as folder:
            model = load(folder, task="translation")
        sources = [source for source, _ in test]
        answers = [answer.text.split() for answer in model.translate_batch(sources)]
        right = sum(words_right(answer, target.split()) for answer, (_, target) in zip(answers, test, strict=True))
        tokens = sum(map(len, model.task.source_tokenizer.encode_batch(sources)))
        return {
            "words right": 100 * right / sum(len(target.split()) for _, target in test),
            "tokens per word": tokens / sum(len(source.split()) for source in sources),
        }


def words_right(answer: Sequence[str], target: Sequence[str]) -> int:
    """The number of positions at which the answer and the target have the same word."""
    return sum(one == other for one, other in zip(answer, target, strict=False))


def inflected(size: int, seed: int) -> Pairs:
    """Sample `size` pairs. The two languages are the same for every seed."""
    forms = _languages()
    draw = Random(seed)
    shares = [1 / (number + 5) for number in range(STEMS)]
    found = []
    for _ in range(size):
        stems = draw.choices(range(STEMS), weights=shares, k=draw.randint(1, 3))
        words = [forms[stem][draw.randrange(ENDINGS)] for stem in stems]
        found.append((" ".join(source for source, _ in words), " ".join(target for _, target in words)))
    return found


@lru_cache(maxsize=1)
def _languages() -> list[list[tuple[str, str]]]:
    """The words of both languages as pairs, by stem and ending: `forms[stem][ending]`."""
    draw = Random(0)

    def sampled(count: int, syllables: int) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < count:
            words["".join(draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(syllables))] = None
        return list(words)

    (stems, others), (endings, their_endings) = (
        [sampled(count, n) for _ in range(2)] for count, n in ((STEMS, 2), (ENDINGS, 1))
    )
    return [
        [(stem + ending, other + theirs) for ending, theirs in zip(endings, their_endings, strict=True)]
        for stem, other in zip(stems, others, strict=True)
    ]
