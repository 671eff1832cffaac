"""Spans of a text: `regard tag` labels them, `answer` finds the answer to a question, `fill` fills masked ones."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import renamed
from regard.cli.inputs import Text, read_texts
from regard.cli.run import Answers, Run, Texts, by_hand, verb
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.answer_spans import Answer
    from regard.tasks.denoising import FilledText
    from regard.tasks.masked_language_modelling import Filled
    from regard.tasks.span_corruption import FilledSpans, SpanFiller
    from regard.tasks.tagging_data import Tagging


COLUMN_FILES = (".conll", ".conll.gz", ".iob", ".iob.gz", ".bio", ".bio.gz")
"""Suffixes of files with one word per line."""


class Form(StrEnum):
    """The form of the output."""

    inline = "inline"
    conll = "conll"
    json = "json"


class Decoding(StrEnum):
    """How tags are decoded."""

    constrained = "constrained"
    greedy = "greedy"


@dataclass(frozen=True, slots=True)
class _Sentence(Text):
    """A text with its words."""

    words: tuple[str, ...]
    document: int


@verb(
    "tagging",
    texts="Texts to tag; by default --input or standard input.",
    input_file="One text per line; from a .conll file the first column is read. Optionally gzipped.",
    output="Output file, in the order of the texts.",
    as_json="Print one JSON object.",
)
def tag(
    run: Texts,
    words: Annotated[bool, typer.Option("--words", help="The texts are already split into words by spaces.")] = False,
    columns: Annotated[
        bool, typer.Option("--columns", help="The file has one word per line, as a .conll file.")
    ] = False,
    form: Annotated[
        Form, typer.Option("--format", help="Brackets in the text, one word and tag per line, or JSON lines.")
    ] = Form.inline,
    decoding: Annotated[
        Decoding | None,
        typer.Option(
            help="Only valid tag sequences, or the best tag of each word; by default as the model was trained."
        ),
    ] = None,
) -> None:
    """Tag the words of texts, such as named entities or parts of speech.

    By default one output line per input line: "[PER Angela Merkel] visited [LOC Paris].", or "Paris/NNP" for tags that mark
    no spans. --format conll writes one word and its tag per line and an empty line after each text; --format json one
    object per text, with character offsets and probabilities.

    \b
    Example:
      regard tag runs/names "Angela Merkel visited Paris."
      regard tag runs/names --input news.txt --format json --output names.jsonl
      regard tag runs/names --input test.conll --format conll --output predicted.conll
      echo "the U.S. Senate" | regard tag runs/names --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    of_columns = columns or (run.input_file is not None and run.input_file.name.lower().endswith(COLUMN_FILES))
    if columns and run.input_file is None:
        raise InputError("--columns goes with --input FILE; give the file of words")
    waiting = _sentences(run) if of_columns else run.read()
    with run.file() as file:
        from regard.data.tagged import words_of

        tagger = run.load("tagging")

        def answer(chunk: list[Text]) -> list[Tagging]:
            if form == Form.conll and chunk and chunk[0].row is not None:
                raise InputError("--format conll cannot hold the columns of a table; leave it out, or give a text file")
            given: list[str | tuple[str, ...]] = []
            for text in chunk:
                given.append(text.words if isinstance(text, _Sentence) else text.content)
                if words and not isinstance(text, _Sentence):
                    given[-1] = tuple(text.content.split())
                elif isinstance(given[-1], str) and not words_of(given[-1]):
                    raise InputError(f"{text.where}: has no words to tag")
            documents = [text.document for text in chunk if isinstance(text, _Sentence)]
            return tagger.tag_batch(
                given, documents=documents or None, decoding=None if decoding is None else decoding.value
            )

        # A sentence is read with its neighbours, which must not depend on the boundaries of chunks.
        together = sys.maxsize if of_columns and tagger.task.context > 0 else None
        how = Answers(command="tag", name="taggings", line=_WRITTEN[form], values=_tagging_values)
        run.write(how, waiting, answer, file=file, watched=tagger, together=together)


def _sentences(run: Texts) -> Iterator[Text]:
    """The sentences of a column file."""
    from regard.data.tagged import read_tagged
    from regard.tasks.tagging_data import documents_of

    file = run.input_file
    if run.texts or file is None:
        raise InputError("texts are given both on the command line and in a file; give one of them")
    read, other = itertools.tee(read_tagged(file, tagged=False, on_error="stop"))
    return (
        _Sentence(" ".join(sentence.words), f"{file}, line {sentence.line}", sentence.words, document)
        for sentence, document in zip(read, documents_of(other), strict=True)
    )


def _inline(text: Text, answer: Tagging | None) -> str:
    if answer is None:
        return "\n"
    parts: list[str] = []
    done = 0
    if answer.entities:
        marked = [(entity.start, entity.end, f"[{entity.type} {entity.text}]") for entity in answer.entities]
    elif any(tag != "O" for tag in answer.tags):  # tags that mark no spans
        rows = zip(answer.spans, answer.words, answer.tags, strict=True)
        marked = [(start, end, f"{word}/{tag}") for (start, end), word, tag in rows]
    else:
        marked = []
    for start, end, written in marked:
        parts += [answer.text[done:start], written]
        done = end
    parts.append(answer.text[done:])
    return "".join(parts).translate(_BREAKS) + "\n"


_BREAKS = str.maketrans(dict.fromkeys("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


def _columns(text: Text, answer: Tagging | None) -> str:
    if answer is None:
        return "\n"
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(answer.words, answer.tags, strict=True)) + "\n"


def _json_line(text: Text, answer: Tagging | None) -> str:
    return json.dumps(_tagged(answer, ""), ensure_ascii=False) + "\n"


_WRITTEN: dict[Form, Callable[[Text, Tagging | None], str]] = {
    Form.inline: _inline,
    Form.conll: _columns,
    Form.json: _json_line,
}


def _tagging_values(text: Text, answer: Tagging | None) -> dict[str, Any]:
    return _tagged(answer, text.content)


def _tagged(answer: Tagging | None, text: str) -> dict[str, Any]:
    if answer is None:
        return {"text": text, "words": [], "entities": []}
    rows = zip(answer.words, answer.tags, answer.spans, answer.probabilities, strict=True)
    return {
        "text": answer.text,
        "words": [
            {"text": word, "tag": tag, "start": start, "end": end, "probability": probability}
            for word, tag, (start, end), probability in rows
        ],
        "entities": [
            {name: getattr(entity, name) for name in ("type", "text", "start", "end", "probability")}
            for entity in answer.entities
        ],
    }


# `regard answer`.


QUESTIONS_TOGETHER = 32
"""Questions that are read from a file before they are answered; contexts may be long."""


@dataclass(frozen=True, slots=True)
class _Question(Text):
    """A question with its context."""

    context: str
    id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Questions(Run):
    """The options of `regard answer`."""

    questions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION", help="Questions about the context; by default standard input.", show_default=False
        ),
    ] = None
    context: Annotated[str | None, typer.Option(metavar="TEXT", help="The text that contains the answer.")] = None
    context_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the context, of any length; optionally gzipped.")
    ] = None
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="A file of questions with their contexts: SQuAD's JSON, or JSONL; optionally gzipped.",
        ),
    ] = None

    @property
    def count(self) -> int | None:
        """The number of questions; None where unknown."""
        return len(self.questions) if self.questions else None

    @property
    def typed(self) -> bool:
        """Whether a person types the questions and waits for each answer."""
        return by_hand(self.questions, self.input_file)


@renamed(no_answer_threshold="threshold")
@verb(
    "question_answering",
    output="Output file, one line per question.",
    as_json="Print one JSON object, with character offsets and alternatives.",
)
def answer(
    run: Questions,
    n_best: Annotated[int, typer.Option(metavar="N", min=1, help="Answers per question, best first.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="How far the no-answer score must lead to predict no answer; by default the model's own.",
        ),
    ] = None,
) -> None:
    """Answer questions with spans of a context: one output line per question, with the answer and its probability.

    The context may have any length. The answer may be empty if the model was trained on unanswerable questions.

    \b
    Example:
      regard answer runs/squad "Where does she live?" --context "She has lived in Paris since 1999."
      regard answer runs/squad "Who wrote it?" "When?" --context-file book.txt
      regard answer runs/squad "Who wrote it?" --context-file book.txt --n-best 5
      regard answer runs/squad --input questions.jsonl --output answers.tsv
      regard answer runs/squad --input dev-v2.0.json --threshold -1.5 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    if n_best > 1 and not run.as_json and (run.input_file is not None or run.count != 1):
        raise InputError("--n-best gives several lines for one QUESTION; for more questions, give --json as well")
    waiting = _questions(run.questions or [], run.context, run.context_file, run.input_file)
    with run.file() as file:
        answerer = run.load("question_answering")

        def ask(chunk: list[Text]) -> list[Answer]:
            asked = [text for text in chunk if isinstance(text, _Question)]
            return list(
                answerer.answered(
                    [(question.content, question.context) for question in asked],
                    n_best=n_best,
                    threshold=threshold,
                    names=[question.where for question in asked],
                )
            )

        run.write(ANSWERS, waiting, ask, file=file, watched=answerer, together=QUESTIONS_TOGETHER)


def _questions(
    questions: list[str], context: str | None, context_file: Path | None, input_file: Path | None
) -> Iterator[Text]:
    """The questions with their contexts, one by one.

    Raises:
        InputError: where contexts are missing or given twice, and for a file that cannot be read.
    """
    given = [name for name, value in (("--context", context), ("--context-file", context_file)) if value is not None]
    if input_file is not None:
        if given or questions:
            other = given[0] if given else "a QUESTION"
            raise InputError(f"--input has questions and their contexts, and {other} is given too; give one of them")
        return _from_file(input_file)
    if len(given) != 1:
        raise InputError(
            "give the context with either --context TEXT or --context-file FILE" + ("" if given else ", or use --input")
        )
    text = _context(context_file) if context_file is not None else str(context)
    if not text.strip():
        raise InputError(f"the context{f' in {context_file}' if context_file else ''} is empty; give a text")
    if questions:
        return (_Question(asked, f"question {number}", text) for number, asked in enumerate(questions, start=1))
    return (_Question(asked.content, asked.where, text) for asked in read_texts((), None))


def _from_file(file: Path) -> Iterator[Text]:
    from regard.data.questions import read_questions

    return (
        _Question(question.question, f"{file}, question {question.number}", question.context, question.id)
        for question in read_questions(file, answered=False, on_error="stop")
    )


def _context(file: Path) -> str:
    """The whole text of a file.

    Raises:
        InputError: where it cannot be read, or is not UTF-8.
    """
    from regard.data.lines import BYTE_ORDER_MARK, open_file, read_lines, reading_errors, wrong_encoding

    name = str(file)
    read_lines(name)  # refuses a missing file, a folder and binary data
    with open_file(name) as stream, reading_errors(name, lambda: "its text"):
        content = stream.read()
    try:
        return content.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError:
        raise wrong_encoding(name, None) from None


def _answer_lines(text: Text, answer: Answer | None) -> str:
    if answer is None:
        return "\n"
    rest = [] if answer.start is None else list(answer.alternatives)
    found = [(answer.text, answer.probability), *((passage.text, passage.probability) for passage in rest)]
    return "".join(f"{' '.join(text.split())}\t{probability:.4f}\n" for text, probability in found)


def _answer_values(text: Text, answer: Answer | None) -> dict[str, Any]:
    named = {"id": text.id} if isinstance(text, _Question) and text.id is not None else {}
    if answer is None:
        return {**named, "question": text.content}
    return {
        **named,
        "question": answer.question,
        **_passage(answer),
        "alternatives": [_passage(each) for each in answer.alternatives],
        **{
            name: getattr(answer, name)
            for name in ("no_answer_probability", "no_answer_score")
            if answer.no_answer_probability is not None
        },
    }


def _passage(found: Any) -> dict[str, Any]:
    return {"answer": found.text, "start": found.start, "end": found.end, "probability": found.probability}


ANSWERS = Answers(command="answer", name="answers", line=_answer_lines, values=_answer_values)


# `regard fill`.


USUAL_CANDIDATES = 5

FILLERS = {
    "span_corruption": "span_corruption",
    "text_to_text": "span_corruption",
    "denoising": "denoising",
    "translation": "denoising",
}
"""The tasks of models that may have been pre-trained to fill gaps, and the task by which they do it; a T5 or BART of another
library may be either."""


@renamed(top="n_best")
@verb(
    *("masked_language_modelling", "span_corruption", "denoising"),
    texts="Texts with [MASK] or <extra_id_0> in them; by default --input or standard input.",
    as_json="Print one JSON object, with the whole text for each candidate.",
)
def fill(
    run: Texts,
    n_best: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Candidates for each mask; 5 by default.", show_default=False),
    ] = None,
) -> None:
    """Fill in masked tokens: one output line per input line.

    A line has the text with the most probable token at every mask, then, after a tab for each mask, the candidates and their
    probabilities. Several masks are filled independently. A candidate that begins with ## continues the word before it.

    A model pre-trained by span corruption (T5) generates any number of words for each <extra_id_0>, <extra_id_1> and so on:
    first the whole text, then, after a tab, the words for each. A model pre-trained by denoising (BART) generates the whole
    text again, with any number of words for each <mask>.

    \b
    Example:
      regard fill runs/bert "Paris is the [MASK] of France."
      regard fill runs/bert "The [MASK] sat on the [MASK]." --n-best 3
      regard fill runs/bert --input gaps.txt --output filled.txt
      regard fill runs/bert "Paris is the [MASK] of France." --json
      regard fill runs/t5-pretrained "Thank you <extra_id_0> me to your party <extra_id_1> week."
      regard fill runs/bart "Thank you <mask> me to your party last week."
    """  # noqa: D301  # \b keeps the lines of the example apart
    waiting = run.read()
    with run.file() as file:
        from regard.tasks.loading import task_of
        from regard.tasks.masked_language_modelling import mask_of

        task = FILLERS.get(task_of(run.model), "masked_language_modelling")
        predictor = run.load(task)
        if task in FILLERS and n_best is not None:
            raise InputError("--n-best is for models that fill in one word for each [MASK]; leave it out")
        mask = "" if task == "span_corruption" else mask_of(predictor.task.tokenizer)

        def answer(chunk: list[Text]) -> Sequence[Any]:
            if task == "span_corruption":
                return _filled_spans(predictor, chunk)
            for text in chunk:
                if mask not in text.content:
                    raise InputError(f"{text.where}: there is no {mask} in it; write {mask} in place of a word")
            texts = [text.content for text in chunk]
            return (
                predictor.fill_batch(texts)
                if task == "denoising"
                else predictor.fill_batch(texts, n_best or USUAL_CANDIDATES)
            )

        run.write(FILLED_AS.get(task, FILLED), waiting, answer, file=file, watched=predictor)


def _filled_line(text: Text, filled: Filled | None) -> str:
    if filled is None:
        return "\n"
    masks = [", ".join(f"{each.token} {each.probability:.4f}" for each in candidates) for candidates in filled.masks]
    return "\t".join([" ".join(filled.best.split()), *masks]) + "\n"


def _filled_values(text: Text, filled: Filled | None) -> dict[str, Any]:
    if filled is None:
        return {"text": text.content, "best": text.content, "masks": []}
    masks = [
        [{"token": each.token, "probability": each.probability, "text": each.text} for each in candidates]
        for candidates in filled.masks
    ]
    return {"text": filled.text, "best": filled.best, "masks": masks}


FILLED = Answers(command="fill", name="filled", line=_filled_line, values=_filled_values)


# Models that were pre-trained by span corruption.


def _filled_spans(model: SpanFiller, chunk: list[Text]) -> list[FilledSpans]:
    """The filled spans of some texts.

    Raises:
        InputError: for a text without <extra_id_0>, with its place.
    """
    for text in chunk:
        if "<extra_id_0>" not in text.content:
            raise InputError(
                f"{text.where}: there is no <extra_id_0> in it; write <extra_id_0>, <extra_id_1> and so on in the place of "
                "missing "
                "words"
            )
    return model.fill_batch([text.content for text in chunk])


def _spans_line(text: Text, filled: FilledSpans | None) -> str:
    """The whole text, then the words for each gap, separated by tabs."""
    if filled is None:
        return "\n"
    return "\t".join(" ".join((span or "").split()) for span in (filled.best, *filled.spans)) + "\n"


def _spans_values(text: Text, filled: FilledSpans | None) -> dict[str, Any]:
    """The same by name; null for a gap that the model left out."""
    if filled is None:
        return {"text": text.content, "best": text.content, "spans": [], "log_probability": None}
    return {
        "text": filled.text,
        "best": filled.best,
        "spans": list(filled.spans),
        "log_probability": filled.log_probability,
    }


FILLED_SPANS = Answers(command="fill", name="filled", line=_spans_line, values=_spans_values)


# Models that were pre-trained by denoising.


def _text_line(text: Text, filled: FilledText | None) -> str:
    """The generated text."""
    return "\n" if filled is None else " ".join(filled.best.split()) + "\n"


def _text_values(text: Text, filled: FilledText | None) -> dict[str, Any]:
    """The same by name."""
    if filled is None:
        return {"text": text.content, "best": text.content, "log_probability": None}
    return {"text": filled.text, "best": filled.best, "log_probability": filled.log_probability}


FILLED_AS = {
    "span_corruption": FILLED_SPANS,
    "denoising": Answers(command="fill", name="filled", line=_text_line, values=_text_values),
}
"""The form of the output of models that fill gaps, by task."""
