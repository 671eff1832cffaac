"""The scores that attribution explains: what every score has, and those of an encoder's tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.words import SPACES, shown_tokens, token_texts
from regard.layers import Encoded, Tokens
from regard.tasks.encoders import EncoderPredictor, Joined
from regard.tasks.labelled import Text, joined
from regard.tasks.masked_language_modelling import read_masked
from regard.tasks.multi_label import MultiLabelTask
from regard.tasks.question_data import Window, encoded_contexts, windows
from regard.tasks.regression import MultiOutputTask
from regard.tasks.tagging_data import read_sentences

if TYPE_CHECKING:
    from regard.tasks.classification import Classifier
    from regard.tasks.masked_language_modelling import MaskedLanguageModel
    from regard.tasks.multi_label import MultiLabelClassifier
    from regard.tasks.multiple_choice import MultipleChoice
    from regard.tasks.question_answering import QuestionAnswerer
    from regard.tasks.regression import MultiOutputRegressor, Regressor
    from regard.tasks.sentence_embedding import SentenceEncoder
    from regard.tasks.tagging import Tagger


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadTokens:
    """A sequence that a model reads.

    Arguments:
        name: what it is to the model, such as `source`.
        ids: its token ids.
        texts: the same as strings.
    """

    name: str
    ids: tuple[int, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scored:
    """A score of one example, as a function of what the model reads.

    Arguments:
        module: the model.
        quantity: what the score is, such as `log p`.
        target: what it is of, such as a token.
        read: the sequences that the model embeds.
        score: from these, as so many equal rows each (N, S), to the scores (N,).
    """

    module: nn.Module
    quantity: str
    target: str
    read: tuple[ReadTokens, ...]
    score: Callable[[Sequence[Tokens]], Tensor]


class TaskScore(Protocol):
    """A question to a task's model whose answer is a number."""

    def of(self, model: Any) -> Scored:
        """The score of this model.

        Raises:
            InputError: where the model cannot be asked this.
        """
        ...


def place_of(token: int | str, texts: Sequence[str], where: str) -> int:
    """A token of a sequence by its number or its text, as a place from 0.

    Raises:
        InputError: where there is none, or several.

    >>> place_of("dog", ["▁a", "▁dog", "</s>"], "target"), place_of(-1, ["▁a", "</s>"], "target")
    (1, 1)
    """
    if isinstance(token, int):
        if not -len(texts) <= token < len(texts):
            raise InputError(f"token {token}: the {where} has {len(texts)} tokens, counted from 0: {_listed(texts)}")
        return token % len(texts)
    written = enumerate(zip(texts, token_texts(texts), strict=True))
    found = [place for place, (text, read) in written if token in (text, read, text.strip(SPACES), read.strip())]
    if len(found) != 1:
        often = "is not there" if not found else f"occurs {len(found)} times, at {', '.join(map(str, found))}"
        raise InputError(f"token {token!r} {often}; the {where} is {_listed(texts)}; give its number")
    return found[0]


def _listed(texts: Sequence[str]) -> str:
    return " ".join(shown_tokens(texts)[:40]) + (" ..." if len(texts) > 40 else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassProbability:
    """Of a classifier: log p(class | text), natural log; of one that predicts any number of labels, of one of them.

    Arguments:
        text: a text, or two where the model reads pairs.
        label: the class or label; the most probable one where None.
    """

    text: Text
    label: str | None = None

    def of(self, model: Classifier | MultiLabelClassifier) -> Scored:
        """The score of this classifier.

        Raises:
            InputError: for a class that the model does not know, and as `Classifier.classify`.
        """
        task = model.task
        input = joined(task, [self.text], pairs=task.pairs, maximum=model.maximum_length)[0]
        shares = model.classify(self.text).probabilities if self.label is None else {}
        label = max(shares, key=shares.__getitem__) if self.label is None else self.label
        if label not in task.classes:
            raise InputError(f"there is no class {label!r}; {nearest(label, task.classes)}")
        number = task.classes.index(label)
        by_itself = isinstance(task, MultiLabelTask)

        def score(read: Sequence[Tokens]) -> Tensor:
            logits = _exact(_encoded(model, input, read[0]).logits)
            return F.logsigmoid(logits[:, number]) if by_itself else logits.log_softmax(dim=-1)[:, number]

        return _scored(model, "log p", label, [input], score)


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedValue:
    """Of a model that rates: the number it gives a text, in the units of its data.

    Arguments:
        text: a text, or two where the model reads pairs.
        output: which number, by name, of a model that gives several; the first where None.
    """

    text: Text
    output: str | None = None

    def of(self, model: Regressor | MultiOutputRegressor) -> Scored:
        """The score of this model.

        Raises:
            InputError: as `Regressor.rate`, and for a number that the model does not give.
        """
        task = model.task
        names, means, spreads = (
            (task.names, task.means, task.spreads)
            if isinstance(task, MultiOutputTask)
            else (("value",), (task.mean,), (task.spread,))
        )
        output = names[0] if self.output is None else self.output
        if output not in names:
            raise InputError(f"there is no number {output!r}; {nearest(output, names)}")
        number = names.index(output)
        input = joined(task, [self.text], pairs=task.pairs, maximum=model.maximum_length)[0]

        def score(read: Sequence[Tokens]) -> Tensor:
            return _exact(_encoded(model, input, read[0]).logits)[:, number] * spreads[number] + means[number]

        whole = self.text if isinstance(self.text, str) else " | ".join(self.text)
        return _scored(model, output, shorten(whole, 60, placeholder="..."), [input], score)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskProbability:
    """Of a masked language model: log p(token at a mask | the text around), natural log.

    Arguments:
        text: with a mask in it, such as "Paris is the [MASK] of France.".
        token: a piece of the vocabulary; the most probable one where None.
        mask: which of several masks, from 0 or from -1 backwards.
    """

    text: str
    token: str | None = None
    mask: int = 0

    def of(self, model: MaskedLanguageModel) -> Scored:
        """The score of this model.

        Raises:
            InputError: for a mask that is not there, a token that the model does not know, and as `fill`.
        """
        tokenizer = model.task.tokenizer
        input = read_masked(tokenizer, [self.text], maximum=model.maximum_length)[0]
        masks = [place for place, index in enumerate(input.ids) if index == tokenizer.mask_id]
        if not -len(masks) <= self.mask < len(masks):
            raise InputError(f"mask {self.mask}: the text has {len(masks)}, counted from 0")
        token = model.fill(self.text, top=1).masks[self.mask][0].token if self.token is None else self.token
        number = tokenizer.find(token)
        if number is None:
            raise InputError(f"the vocabulary has no token {token!r}; what follows within a word begins with ##")
        place = masks[self.mask]

        def score(read: Sequence[Tokens]) -> Tensor:
            rows, length = read[0].ids.shape
            at = torch.arange(rows, device=model.device) * length + place
            logits = _exact(_encoded(model, input, read[0], at=at).logits)
            return logits[:, : tokenizer.size].log_softmax(dim=-1)[:, number]

        return _scored(model, "log p", token, [input], score)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagProbability:
    """Of a tagger: log p(tag of one word | sentence), natural log, without the rules of which tag may follow which.

    Arguments:
        text: a text, or the words of a sentence. Of one longer than the model reads, the window in which the word is tagged.
        word: a number, from 0 or from -1 backwards, or the word itself where it occurs once.
        tag: the one that the model gives the word where None.
    """

    text: str | Sequence[str]
    word: int | str
    tag: str | None = None

    def of(self, model: Tagger) -> Scored:
        """The score of this tagger.

        Raises:
            InputError: for a word that is not there, a tag that the model does not know, and as `Tagger.tag`.
        """
        task, said = model.task, model.tag(self.text)
        word = place_of(self.word, said.words, "text")
        tag = said.tags[word] if self.tag is None else self.tag
        if tag not in task.tags:
            raise InputError(f"there is no tag {tag!r}; {nearest(tag, task.tags)}")
        number = task.tags.index(tag)
        found = next(read_sentences(task.tokenizer, [said.words], maximum=model.maximum_length, context=task.context))
        # The windows tag the words one after another, each word in one of them.
        input, place = [(window.joined, place) for window in found for place in window.places][word]

        def score(read: Sequence[Tokens]) -> Tensor:
            return _exact(_encoded(model, input, read[0]).logits)[:, place].log_softmax(dim=-1)[:, number]

        return _scored(model, "log p", f"{said.words[word]}: {tag}", [input], score)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerProbability:
    """Of a model that answers questions: log p(first token) + log p(last token) of an answer, natural log.

    Both are over the tokens of the context that are read with the answer, and [CLS] where the model may say that there is none.

    Arguments:
        question, context: texts. Of a context longer than the model reads, the window in which the answer stands.
        answer: a passage of the context that occurs in it once; the model's own answer where None.
    """

    question: str
    context: str
    answer: str | None = None

    def of(self, model: QuestionAnswerer) -> Scored:
        """The score of this model.

        Raises:
            InputError: for an answer that does not be in the context once, or where the model says that there is none; and as
                `QuestionAnswerer.answer`.
        """
        own = model.answer(self.question, self.context)
        start, end = (own.start, own.end) if self.answer is None else self._places(self.answer)
        if start is None or end is None:
            raise InputError("the model says that there is no answer; name one")
        task, tokenizer = model.task, model.task.tokenizer
        cut = windows(
            tokenizer,
            tokenizer.encode(self.question),
            encoded_contexts(tokenizer, [self.context])[0],
            maximum_length=model.maximum_length,
            stride=task.stride,
        )
        window, first, last = _window_with(cut, start, end)
        begin, count = window.joined.second, len(window.spans)

        def score(read: Sequence[Tokens]) -> Tensor:
            logits = _exact(_encoded(model, window.joined, read[0]).logits)
            within = logits[:, begin : begin + count]
            if task.unanswerable:
                within = torch.cat([within, logits[:, :1]], dim=1)
            logs = within.log_softmax(dim=1)
            return logs[:, first, 0] + logs[:, last, 1]

        said = shorten(self.context[start:end], 60, placeholder="...")
        return _scored(model, "log p", said, [window.joined], score)

    def _places(self, answer: str) -> tuple[int, int]:
        often = self.context.count(answer) if answer else 0
        if often != 1:
            raise InputError(
                f"the answer {answer!r:.80} stands in the context {often} times; give one that occurs once"
            )
        start = self.context.index(answer)
        return start, start + len(answer)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceProbability:
    """Of a model that chooses: log p(one of the choices), natural log. Each choice is a sequence of its own, with the context.

    Arguments:
        context: a text.
        choices: among which.
        choice: the number of one, from 0; the model's own where None.
    """

    context: str
    choices: Sequence[str]
    choice: int | None = None

    def of(self, model: MultipleChoice) -> Scored:
        """The score of this model.

        Raises:
            InputError: for a choice that is not there, and as `MultipleChoice.choose`.
        """
        own = model.choose(self.context, self.choices)
        number = own.index if self.choice is None else self.choice
        if not 0 <= number < len(self.choices):
            raise InputError(f"choice {number}: there are {len(self.choices)}, counted from 0")
        inputs = model.task.encode([self.context], [list(self.choices)], maximum=model.maximum_length)[0]

        def score(read: Sequence[Tokens]) -> Tensor:
            each = [
                _exact(_encoded(model, input, tokens).logits).squeeze(-1)
                for input, tokens in zip(inputs, read, strict=True)
            ]
            return torch.stack(each, dim=1).log_softmax(dim=1)[:, number]

        names = [f"choice {place}" for place in range(len(inputs))]
        return _scored(model, "log p", shorten(self.choices[number], 60, placeholder="..."), inputs, score, names)


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """Of a model that gives texts vectors: the cosine of two.

    Two texts of zeros are alike. So that the baseline is not, attribute to one of them: `inputs=["second"]`.

    Arguments:
        first, second: the texts.
    """

    first: str
    second: str

    def of(self, model: SentenceEncoder) -> Scored:
        """The score of this model.

        Raises:
            InputError: for an empty text, and as `SentenceEncoder.embed`.
        """
        for text in (self.first, self.second):
            if not text.strip():
                raise InputError("a text is empty; there is nothing to attribute to")
        inputs = [Joined(ids) for ids in model.task.encode([self.first, self.second], maximum=model.maximum_length)]

        def score(read: Sequence[Tokens]) -> Tensor:
            one, other = (
                model.task.vectors(_encoded(model, input, tokens, at=_nowhere(tokens)).hidden, tokens.valid)
                for input, tokens in zip(inputs, read, strict=True)
            )
            return F.cosine_similarity(one, other, dim=-1)

        said = " | ".join(shorten(text, 30, placeholder="...") for text in (self.first, self.second))
        return _scored(model, "cosine", said, inputs, score, ["first", "second"])


ENCODER_SCORES: Mapping[str, type[TaskScore]] = MappingProxyType(
    {
        "classification": ClassProbability,
        "multi_label_classification": ClassProbability,
        "regression": PredictedValue,
        "multi_output_regression": PredictedValue,
        "masked_language_modelling": MaskProbability,
        "tagging": TagProbability,
        "question_answering": AnswerProbability,
        "multiple_choice": ChoiceProbability,
        "sentence_embedding": Likeness,
    }
)
"""By the name of a task, the score that its models are asked for."""


def _scored(
    model: EncoderPredictor[Any],
    quantity: str,
    target: str,
    inputs: Sequence[Joined],
    score: Any,
    names: Sequence[str] = ("text",),
) -> Scored:
    tokenizer = model.task.tokenizer
    read = tuple(
        ReadTokens(name=name, ids=tuple(input.ids), texts=tuple(tokenizer.tokens(input.ids)))
        for name, input in zip(names, inputs, strict=True)
    )
    return Scored(module=model.model, quantity=quantity, target=target, read=read, score=score)


def _encoded(model: EncoderPredictor[Any], input: Joined, tokens: Tokens, at: Tensor | None = None) -> Encoded:
    """What the model makes of so many equal rows of one input."""
    length = tokens.ids.shape[1]
    segments = (torch.arange(length, device=tokens.ids.device) >= (input.second or length)).long()
    return model.model(tokens, segments.expand(tokens.ids.shape), at=at)


def _nowhere(tokens: Tokens) -> Tensor:
    """No logits of a head over the vocabulary are wanted."""
    return torch.zeros(0, dtype=torch.int64, device=tokens.ids.device)


def _exact(logits: Tensor | None) -> Tensor:
    """Logits in float32 at least."""
    if logits is None:
        raise RuntimeError("the model has no such head")
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _window_with(cut: Any, start: int, end: int) -> tuple[Window, int, int]:
    """The window with a passage in it, and its first and last token there."""
    for window in cut:
        inside = [place for place, (first, last) in enumerate(window.spans.tolist()) if first < end and last > start]
        whole = inside and window.spans[inside[0], 0] <= start and window.spans[inside[-1], 1] >= end
        if whole and window.owned[0] <= inside[0] < window.owned[1]:
            return window, inside[0], inside[-1]
    raise InputError("the answer does not fit into one window of the context; give a shorter one")
