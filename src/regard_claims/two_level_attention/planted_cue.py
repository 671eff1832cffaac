"""The attention weights of the sentence and the words that determine the class of a document, at two levels of attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.data.synthetic_texts import CueDocument, CueDocuments
from regard.inspection import look
from regard.tasks.classification import Classifier
from regard.tasks.loading import load
from regard_claims.shared import accuracy, check_counts, check_examples, learning, trained


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantedCue:
    """A hierarchical attention network on documents in which one sentence determines the class.

    The documents are `CueDocuments`; the claim is from Yang et al. (2016, table 2, figures 5 and 6). Measured on the test split
    are:

    - `accuracy`, in per cent;
    - `sentence weight`: the mean attention weight of the sentence with the cue;
    - `word weight` and `opinion weight`: the mean attention weights within this sentence, of the cue and its opinion word
      together, and of the opinion word only.

    With `average` the weights are equal and known in advance; with `maximum` there are no weights and they are NaN.

    Arguments:
        gathering: as in `HANConfig`.
        width: the width of each direction of the recurrent networks, of the word embeddings and of the context vectors.
        size: the number of training documents.
        test_size: the number of test documents.
        sentences: the number of sentences in a document.
        words: the number of words in a sentence.
        balanced: whether every sentence contains one positive and one negative word, so that counting them is uninformative.
        steps: the number of updates.
        batch: the approximate number of documents in an update.
        learning_rate: the peak learning rate; it decreases to 0 along a cosine.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float32"
    gathering: Literal["attention", "average", "maximum"] = "attention"
    width: int = 32
    size: int = 8_000
    test_size: int = 1_000
    sentences: int = 8
    words: int = 10
    balanced: bool = False
    steps: int = 1_200
    batch: int = 64
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        check_counts(self, "width", "test_size", "steps", "batch")
        check_examples(self)

    @property
    def measures(self) -> tuple[str, ...]:
        """The accuracy in per cent, and attention weights from 0 to 1."""
        return ("accuracy", "sentence weight", "word weight", "opinion weight")

    def run(self, seed: int) -> dict[str, float]:
        """Train the network, and measure it on the test documents."""
        learnt, test = self._documents("train", self.size, seed), self._documents("test", self.test_size, seed)
        sizes = dict.fromkeys(("embedding_width", "hidden_width", "attention_width"), self.width)
        tokens = self.sentences * (self.words + 1) + 1
        with trained(
            "classification",
            {"name": "han", "gathering": self.gathering, **sizes},
            learnt.labelled(),
            seed=seed,
            data={"maximum_length": max(5, tokens)},
            training=learning(self, self.batch * tokens),
        ) as folder:
            model = load(folder, task="classification")
            told = model.classify_batch([document.text for document in test])
            right = accuracy(told, [document.label for document in test])
            return {"accuracy": right, **self._weights(model, test)}

    def _documents(self, split: str, size: int, seed: int) -> CueDocuments:
        return CueDocuments(
            split, sentences=self.sentences, words=self.words, balanced=self.balanced, size=size, seed=seed
        )

    def _weights(self, model: Classifier, test: Sequence[CueDocument]) -> dict[str, float]:
        if self.gathering == "attention":
            return weights_of_cues(model, test)
        equal = self.gathering == "average"
        shares = (1 / self.sentences, 2 / self.words, 1 / self.words) if equal else (math.nan,) * 3
        return dict(zip(self.measures[1:], shares, strict=True))


def weights_of_cues(model: Classifier, documents: Sequence[CueDocument]) -> dict[str, float]:
    """The mean attention weights of the sentence with the cue, of cue and opinion word, and of the opinion word.

    Arguments:
        model: a hierarchical attention network.
        documents: at least one document; each of its words must be one token.
    """
    sums = [0.0, 0.0, 0.0]
    for document in documents:
        with look(model) as seen:
            model.classify(document.text)
        sentence = seen.weights("sentences.attention")[0, 0, 0]
        # A row has one column for each token of the document; only the tokens of its own sentence have weights.
        row = seen.weights("words.attention")[0, 0, document.sentence]
        own = row[_places(document)]
        cue, opinion = own.tolist()
        for place, weight in enumerate((float(sentence[document.sentence]), cue + opinion, opinion)):
            sums[place] += weight
    names = ("sentence weight", "word weight", "opinion weight")
    return {name: total / len(documents) for name, total in zip(names, sums, strict=True)}


def _places(document: CueDocument) -> list[int]:
    """The positions of cue and opinion word among the tokens, which begin with a start token and have one between sentences."""
    lengths = [len(sentence.split()) for sentence in document.text.split("\n\n")]
    begin = 1 + sum(length + 1 for length in lengths[: document.sentence])
    return [begin + place for place in document.words]
