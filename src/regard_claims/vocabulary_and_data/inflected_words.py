"""How many subwords a translator should have, with few pairs and with many, between two languages with stems and endings."""

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
    """A Transformer that translates, with subwords (byte pair encoding) of one vocabulary size, from so many pairs.

    Sampled sources have 1 to 3 words, each a stem, the n-th with a probability proportional to 1 / (n + 5), few are frequent
    and many are rare, and one of 8 endings; the target has for each word the stem and the ending of the other language, in order.
    A vocabulary of whole words must learn each of the 1,200 words by itself; small subwords can put one together that was never
    seen.

    Measured on sources of the test: words that are right at their place, in per cent; and tokens for each word of a source.

    Arguments:
        pairs: to learn from.
        vocabulary: subwords of both languages together, at most.
        width: of the Transformer, one block for each side, 4 heads, feed-forward nets twice as wide.
        test_size: pairs to measure on.
        steps: updates.
        batch_tokens: of both sides, in an update.
        learning_rate: the peak, which falls to 0 along a cosine.

    Raises:
        InputError: for sizes that are none.
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
        """Per cent, and tokens."""
        return ("words right", "tokens per word")

    def run(self, seed: int) -> dict[str, float]:
        """Train the translator, and measure it."""
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
    """How many words of the target the answer has at the same place."""
    return sum(one == other for one, other in zip(answer, target, strict=False))


def inflected(size: int, seed: int) -> Pairs:
    """Pairs of the two languages, which are the same for every seed."""
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
    """Of each stem the words with each ending, in both languages."""
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
