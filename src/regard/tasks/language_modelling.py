"""Language modelling: the predictor, the preparation of its data, and its evaluation."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch

from regard.data.notes import in_keys
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings, NGramDraft
from regard.layers import Tokens
from regard.layers.embeddings import check_finite
from regard.quantization import InferenceDecoder, Precision
from regard.reading import read_json_object
from regard.tasks.composing import COMPOSING as COMPOSING
from regard.tasks.composing import Composition as Composition
from regard.tasks.composing import compose as compose
from regard.tasks.composing import writing_of as writing_of
from regard.tasks.generation_config import read_generation_config, stop_strings
from regard.tasks.language_preparation import ONE_TEXT, builtin_texts, check_words, stretches_of
from regard.tasks.language_task import COLUMN, TEXTS, LanguageModellingTask, TextData, chat_template_of
from regard.tasks.language_writing import Beginning, StopText, Writer, Written
from regard.tasks.losses import stands_out
from regard.tasks.predictor import Evaluation, Predictor
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, TokenizerSettings, encoder_tokenizer, prepare
from regard.tasks.spec import TaskSpec
from regard.text import Tokenizer

if TYPE_CHECKING:
    from regard.text.chat import Prompt

WRITING = GenerationSettings(maximum_length=100)
"""The default decoding settings of a language model: greedy, at most 100 tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextScore:
    """The probability of a text.

    Arguments:
        text: the text.
        tokens: the tokens of the text, with the end token.
        log_probabilities: log p(token | previous tokens), natural log, for each token.
        right: whether each token was the most probable one.
    """

    text: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    right: tuple[bool, ...]

    @property
    def log_probability(self) -> float:
        """The log-probability of the whole text with its end token."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Exp of the mean of -log p over the tokens, with the end token."""
        return math.exp(min(700.0, -self.log_probability / len(self.log_probabilities)))


class LanguageModel(Predictor[LanguageModellingTask]):
    """A language model ready to use: texts in, `TextScore`s out.

    Arguments:
        model: a `CausalLM`.
        task: the tokenizer.
        recipe: how it was trained, as data; empty if unknown.
        metrics: its last evaluation.
    """

    @property
    def usual(self) -> GenerationSettings:
        """The decoding settings of the folder, or `WRITING`."""
        return WRITING if self.task.generation is None else self.task.generation

    def score(self, text: str) -> TextScore:
        """The probability of a text as a whole document, with its end token.

        A text that is longer than the model's positions is read in windows (`windows`).
        """
        return self.score_batch([text])[0]

    def score_batch(
        self, texts: Sequence[str], *, batch_size: int = 32, stretch: int = 512, stride: int | None = None
    ) -> list[TextScore]:
        """The probabilities of texts, in batches of similar length; the results are in the order of the texts.

        Arguments:
            batch_size: texts per batch; it affects memory and speed, but not the results.
            stretch: tokens per pass; the state is carried to the next pass, so it does not affect the results either. A model for
                which it would (`reads_in_parts` is false) reads each text in one pass.
            stride: the stride of the windows of a text that is longer than the model's positions, see `windows`.

        Raises:
            InputError: for a stride that is not between 1 and the model's positions.
        """
        tokenizer, limit = self.task.tokenizer, self.model.maximum_length
        encoded = [[*ids, tokenizer.end_id] for ids in tokenizer.encode_batch(list(texts))]
        parts = [(i, window) for i, ids in enumerate(encoded) for window in windows(len(ids), limit, stride)]
        order = sorted(range(len(parts)), key=lambda row: parts[row][1].stop - parts[row][1].start)
        scored: dict[int, tuple[list[float], list[bool]]] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found = self._scored([(encoded[parts[row][0]], parts[row][1]) for row in rows], stretch)
            scored |= dict(zip(rows, found, strict=True))
        answers: list[tuple[list[float], list[bool]]] = [([], []) for _ in texts]
        for row, (i, _) in enumerate(parts):  # the windows of a text are in their order
            for whole, piece in zip(answers[i], scored[row], strict=True):
                whole.extend(piece)  # type: ignore[arg-type]
        return [
            TextScore(
                text=text,
                tokens=tuple(tokenizer.tokens(ids)),
                log_probabilities=tuple(log_probabilities),
                right=tuple(right),
            )
            for text, ids, (log_probabilities, right) in zip(texts, encoded, answers, strict=True)
        ]

    def begin(self, text: str) -> Beginning:
        """Read a common prefix once, for any number of prompts after it (`generate(..., after=)`).

        Raises:
            InputError: for a prefix longer than the model's positions.
        """
        ids = self.writer(None, ()).encode(text)
        with torch.no_grad():
            state = self.model.start(1)
            if len(ids) > 1:
                state = self.model.prefill(Tokens.pad([ids[:-1]], device=self.device), state)
        return Beginning(text=text, ids=tuple(ids), state=state)

    def quantised(self, precision: Precision) -> LanguageModel:
        """The same model for inference on a processor, with compiled kernels.

        With 8 or 4 bits it needs a quarter to an eighth of the memory. The model itself does not change; the weights are copied.
        The result cannot be trained or saved.
        `regard evaluate MODEL TEXT dtype=int4` measures the effect of quantisation.

        Arguments:
            precision: of the weights: `int8` or `int4`, see `regard.quantization.QuantizedWeights`; or `float32` or `bfloat16`,
                for the kernels without quantisation. `regard.load` returns the ordinary model for these two.

        Raises:
            InputError: for a model that is not of the GPT family, is on another device, or is being recorded.
        """
        prepared = InferenceDecoder(self.model, precision)
        return LanguageModel(prepared, self.task, recipe=self.recipe, metrics=self.metrics)

    @overload  # a string is also a sequence of strings; the first matching overload is used
    def generate(  # pyright: ignore[reportOverlappingOverload]
        self,
        prompts: str | Prompt,
        settings: GenerationSettings | None = None,
        *,
        stop: Sequence[str] = (),
        batch_size: int = 16,
        first: int = 0,
        top: int = 0,
        draft: LanguageModel | NGramDraft | None = None,
        ahead: int = 4,
        after: Beginning | None = None,
    ) -> Written: ...

    @overload
    def generate(
        self,
        prompts: Sequence[str | Prompt],
        settings: GenerationSettings | None = None,
        *,
        stop: Sequence[str] = (),
        batch_size: int = 16,
        first: int = 0,
        top: int = 0,
        draft: LanguageModel | NGramDraft | None = None,
        ahead: int = 4,
        after: Beginning | None = None,
    ) -> list[Written]: ...

    def generate(
        self,
        prompts: str | Prompt | Sequence[str | Prompt],
        settings: GenerationSettings | None = None,
        *,
        stop: Sequence[str] = (),
        batch_size: int = 16,
        first: int = 0,
        top: int = 0,
        draft: LanguageModel | NGramDraft | None = None,
        ahead: int = 4,
        after: Beginning | None = None,
    ) -> Written | list[Written]:
        """Generate the continuation of a prompt, or of several prompts.

        Arguments:
            prompts: one text, or several; an empty one starts a new text. Or the result of `prompt_of` for a conversation.
            settings: how to decode; None = the settings of the folder, or `WRITING`.
            stop: strings that end a text; they are not part of it. They need not end at the border of a token.
            batch_size: prompts per batch; it affects memory and speed, but not the results.
            first: the index of the first prompt among all prompts, from 0; with the seed it determines the samples.
            top: the number of most probable tokens to return for each position, in `Written.top`.
            draft: for speculative decoding (`regard.generation.Speculation`), a smaller model with the same vocabulary, or
                `NGramDraft()`, which guesses that the text repeats itself. It only affects the time: greedy results are the
                same, and samples have the same distribution.
            ahead: the number of tokens that the draft proposes at a time.
            after: a common prefix of all prompts, read by `begin`. The result is the same as for prefix and prompt together, if
                the tokenizer splits a token between them.

        Returns:
            A `Written`, or a list of them.

        Raises:
            InputError: for a prompt longer than the model's positions, stop strings in beam search, and a draft with another
                vocabulary or with beam search.
        """
        if not isinstance(prompts, Sequence) or isinstance(prompts, str):
            asked: list[str | Prompt] = [prompts]
            more: dict[str, Any] = {"first": first, "top": top, "draft": draft, "ahead": ahead, "after": after}
            return self.generate(asked, settings, stop=stop, **more)[0]
        writer = replace(self.writer(settings, stop, top), after=after)
        if draft is not None:
            if not isinstance(draft, NGramDraft):
                self._check_draft(draft)
            writer = replace(writer, draft=draft if isinstance(draft, NGramDraft) else draft.model, ahead=ahead)
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        answers: dict[int, Written] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            made = writer.write([prompts[i] for i in rows], [first + i for i in rows])
            for watcher in self._watchers():
                # For one text only, because with several the rows change as texts end.
                watcher.read(writer.tokens_read(prompts[rows[0]], made[0]) if len(rows) == 1 else None)
                watcher.predicted(made, [])
            answers.update(zip(rows, made, strict=True))
        return [answers[i] for i in range(len(prompts))]

    def prompt_of(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        continues: bool = False,
        **variables: Any,
    ) -> Prompt:
        """The prompt of a conversation, by the folder's chat template, for `generate` and `stream`.

        Arguments:
            messages: each with a `role`, such as `system`, `user` or `assistant`, and a `content`.
            tools: JSON schemas of functions that the model can call, if the template supports them.
            continues: whether the last message is the beginning of the answer, to be continued.
            variables: further variables of the template, such as `enable_thinking=False`.

        Raises:
            InputError: if the folder has no chat template, or it does not accept these messages.
        """
        chat = self.task.chat
        if chat is None:
            raise InputError(
                "the model's folder has no chat template (chat_template.jinja), so it was not trained on conversations, or the "
                "file is missing; use generate with a prompt of your own"
            )
        given = {"tools": None if tools is None else list(tools), "continues": continues, **variables}
        return chat.prompt(self.task.tokenizer, messages, **given)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        settings: GenerationSettings | None = None,
        *,
        stop: Sequence[str] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
        continues: bool = False,
        **variables: Any,
    ) -> Written:
        """The model's answer in a conversation: the continuation of `prompt_of` these messages.

        Arguments:
            messages, tools, continues, variables: as for `prompt_of`.
            settings, stop: as for `generate`.

        Raises:
            InputError: as `prompt_of` and `generate`.
        """
        prompt = self.prompt_of(messages, tools=tools, continues=continues, **variables)
        return self.generate(prompt, settings, stop=stop)

    def stream(
        self, prompt: str | Prompt, settings: GenerationSettings | None = None, *, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Generate the continuation of a prompt in pieces; joined they are the text of `generate`.

        Raises:
            InputError: as `generate`, and for beam search or several answers.
        """
        return self.writer(settings, stop).stream(prompt)

    def _check_draft(self, draft: LanguageModel) -> None:
        ours, theirs = self.task.tokenizer, draft.task.tokenizer
        if ours.size != theirs.size or ours.tokens(range(ours.size)) != theirs.tokens(range(theirs.size)):
            raise InputError("draft: its vocabulary differs from this model's; train it with this model's tokenizer")

    def writer(self, settings: GenerationSettings | None = None, stop: Sequence[str] = (), top: int = 0) -> Writer:
        """The generator for prompts; arguments as for `generate`."""
        stop = (*self.task.stop, *stop)
        return Writer(
            model=self.model,
            task=self.task,
            settings=self.usual if settings is None else settings,
            stop=StopText(self.task.tokenizer, stop) if stop else None,
            top=top,
        )

    def _scored(
        self, asked: Sequence[tuple[Sequence[int], Window]], stretch: int
    ) -> list[tuple[list[float], list[bool]]]:
        """The log-probability of each predicted token of a window, and whether it was the most probable."""
        end, padding = self.task.tokenizer.end_id, self.task.tokenizer.padding_id
        read = Tokens.pad(
            [[end, *ids][window.start : window.stop] for ids, window in asked], padding_id=padding, device=self.device
        )
        targets = Tokens.pad(
            [ids[window.start : window.stop] for ids, window in asked], padding_id=padding, device=self.device
        ).ids
        found: list[torch.Tensor] = []
        right: list[torch.Tensor] = []
        if not getattr(self.model, "reads_in_parts", True):
            stretch = max(read.ids.shape[1], 1)
        with torch.no_grad():
            state = self.model.start(len(asked))
            for start in range(0, read.ids.shape[1], stretch):
                part = slice(start, start + stretch)
                logits, state = self.model.read(
                    Tokens(read.ids[:, part], read.valid[:, part], read.padding_side), state
                )
                check_finite(logits, "these texts", where=read.valid[:, part])
                labels = targets[:, part].unsqueeze(-1)
                wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
                chosen = wide.gather(-1, labels)
                found.append((chosen - wide.logsumexp(dim=-1, keepdim=True)).squeeze(-1))
                right.append(stands_out(wide, labels.squeeze(-1)))
        for watcher in self._watchers():
            watcher.read(read)
        logs, rights = torch.cat(found, dim=1).tolist(), torch.cat(right, dim=1).tolist()
        kept = [slice(window.first - window.start, window.stop - window.start) for _, window in asked]
        return [(log[part], hit[part]) for part, log, hit in zip(kept, logs, rights, strict=True)]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text.

    Arguments:
        start, stop: the tokens that are read.
        first: the first predicted token; those before it are only context.
    """

    start: int
    first: int
    stop: int


def windows(length: int, limit: int | None, stride: int | None = None) -> list[Window]:
    """The windows of a long text, as for the perplexities of GPT-2 (Radford et al. 2019, section 3.1).

    In the first window all tokens are predicted, in each later one the last `stride` tokens, which have at least limit - stride
    tokens of context. A text that fits is one window.

    Arguments:
        length: of the text, in tokens.
        limit: the longest window, in tokens; None = no limit.
        stride: the distance between the ends of two windows; None = half the limit. With a smaller stride tokens have more
            context, and it takes longer.

    Raises:
        InputError: for a stride that is not between 1 and the limit.

    >>> windows(10, 4, 2)[:2]
    [Window(start=0, first=0, stop=4), Window(start=2, first=4, stop=6)]
    """
    if limit is None or length <= limit:
        return [Window(0, 0, length)]
    step = max(1, limit // 2) if stride is None else stride
    if not 1 <= step <= limit:
        raise InputError(f"stride is {step}; give 1 to {limit}, the model's positions")
    found = [Window(0, 0, limit)]
    while found[-1].stop < length:
        first = found[-1].stop
        stop = min(first + step, length)
        found.append(Window(stop - limit, first, stop))
    return found


def prepare_stretches(
    data: TextData,
    tokenizer: TokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Any = None,
    given_validation: Any = None,
) -> Prepared[LanguageModellingTask]:
    """Read the data once for the tokenizer and once for the tokens, and write both to `folder`.

    Arguments:
        folder: the folder of tokenizer and token stores; existing ones are reused (in a resumed run).
        seed: the seed of the choice of held-out documents.
        given, given_validation: texts in memory, instead of the files in `data`; empty ones are left out.

    Raises:
        InputError: for data that cannot be read, or too little data.
    """

    def again() -> LanguageModellingTask:
        return replace(LanguageModellingTask.load(folder, {}), document_masks=data.document_masks)

    def write() -> tuple[LanguageModellingTask, list[str]]:
        builtin = None if given is not None else builtin_texts(data, seed)
        files = data if builtin is None else replace(data, validation=None)  # files of music are not read as text
        splits = TEXTS.splits(files, seed, given, given_validation, builtin=builtin, too_few=ONE_TEXT)
        found = encoder_tokenizer(tokenizer, splits.everything)
        check_words(data, found)
        found.save(folder)
        farthest = 0 if data.music is None else data.music.transpose
        kept = (moved for text in splits.train() for moved in (in_keys(text, farthest) if farthest else (text,)))
        for split, texts, tokens in ((TRAIN, kept, data.tokens), (VALIDATION, splits.validation(), None)):
            whole = None if tokens is None else tokens // data.length
            rows = ((stretch,) for stretch in itertools.islice(stretches_of(texts, found, data.length), whole))
            if len(TokenStore.write(folder / split, {COLUMN: found.size}, rows)) == 0:
                raise InputError(f"the {split} texts are empty; give some")
        return again(), splits.notes

    return prepare(LanguageModellingTask, folder, write, again=again)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextEvaluation(Evaluation):
    """The result of an evaluation; `predictions` are `TextScore`s.

    The metrics are `loss`, the mean of -log p over tokens, natural log; `perplexity`, exp of it; `token_accuracy`, the share of
    tokens that were the most probable; `word_perplexity`, exp of the total -log p divided by the number of words between spaces;
    and `bits_per_character`, the total -log2 p divided by the number of characters. The end of a text counts as a token, a word
    and a character. The last two metrics can be compared between models with different vocabularies.

    Arguments:
        tokens, words, characters: the numbers in all texts, with ends.
        unknown: the number of unknown tokens. They are all the same token, which makes a model look better.
    """

    tokens: int
    words: int
    characters: int
    unknown: int

    @property
    def scores(self) -> tuple[TextScore, ...]:
        """The old name of `predictions`, for one release."""
        warnings.warn("scores is called predictions; use that name", DeprecationWarning, stacklevel=2)
        return self.predictions


def evaluate(model: LanguageModel, texts: Any, *, batch_size: int = 32, stride: int | None = None) -> TextEvaluation:
    """Evaluate a model on texts, each as a separate document.

    Arguments:
        batch_size: texts per batch.
        stride: the stride of the windows of texts that are longer than the model's positions, see `windows`.

    Raises:
        InputError: for an empty list, or a stride that is not between 1 and the model's positions.
    """
    texts = TEXTS.to_measure(texts)
    scores = model.score_batch(texts, batch_size=batch_size, stride=stride)
    tokenizer = model.task.tokenizer
    tokens = sum(len(score.tokens) for score in scores)
    words = sum(len(text.split()) + 1 for text in texts)
    characters = sum(len(text) + 1 for text in texts)
    total = -math.fsum(score.log_probability for score in scores)
    unknown = 0
    if tokenizer.unknown_id is not None:
        unknown = sum(ids.count(tokenizer.unknown_id) for ids in tokenizer.encode_batch(list(texts)))
    return TextEvaluation(
        metrics={
            "loss": total / tokens,
            "perplexity": _exp(total / tokens),
            "token_accuracy": sum(sum(score.right) for score in scores) / tokens,
            "word_perplexity": _exp(total / words),
            "bits_per_character": total / characters / math.log(2),
        },
        count=len(texts),
        tokens=tokens,
        words=words,
        characters=characters,
        unknown=unknown,
        predictions=tuple(scores),
    )


def _exp(x: float) -> float:
    return math.exp(min(700.0, x))


def language_modelling_from_hf(folder: Path, config: Any) -> LanguageModellingTask:
    """The task of a folder of another program, with its tokenizer and the tokens that it adds before prompts.

    Arguments:
        folder: a folder with a tokenizer.json, or GPT's `vocab.json` and `merges.txt`.
        config: the config of the model in the folder.

    Raises:
        InputError: if there is no tokenizer, or it does not match config.json.
    """
    tokenizer = Tokenizer.load(folder)
    if tokenizer.size > config.vocabulary:
        raise InputError(
            f"{folder}: its tokenizer has {tokenizer.size} tokens where config.json's vocab_size is {config.vocabulary}; "
            "tokenizer and model must come from the same folder"
        )
    ends = read_json_object(folder / "config.json", "mend it").get("eos_token_id")
    if tokenizer.end_id not in (ends if isinstance(ends, list) else [config.end_id]):
        raise InputError(
            f"{folder}: the tokenizer's end of text, {tokenizer.tokens([tokenizer.end_id])[0]}, has the id "
            f"{tokenizer.end_id} where config.json's eos_token_id is {config.end_id}; tokenizer and model must come from the "
            "same folder"
        )
    usual = GenerationSettings(maximum_length=100)
    asked = read_generation_config(folder, start_id=None, end_id=config.end_id, usual=usual)
    generation = None if asked is usual else asked
    return LanguageModellingTask(
        tokenizer,
        before_prompts=tokenizer.added_before,
        generation=generation,
        stop=stop_strings(folder, asked),
        chat=chat_template_of(folder),
    )


LANGUAGE_MODELLING = TaskSpec(
    task=LanguageModellingTask,
    predictor=LanguageModel,
    interface="language_model",
    sections={"data": TextData, "tokenizer": TokenizerSettings},
    prepare=prepare_stretches,
    evaluate=evaluate,
    examples=TEXTS,
    derived_config={"vocabulary": 1, "padding_id": 0, "end_id": 0},
    from_hf=language_modelling_from_hf,
)
