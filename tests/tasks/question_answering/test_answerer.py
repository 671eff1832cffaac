"""Answers from all windows of a context, against a plain search written out from the paper and the authors' code."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.layers import Tokens
from regard.tasks.question_answering import QuestionAnswerer

CONTEXT = "The café, 中文 words naïve 😀 in more of them; English and the words of 中 and more café."
TEXTS = st.lists(
    st.sampled_from(["the", "café", "cafe\u0301", "naïve", "中文", "😀", "words,", "(more)", "English", "\u200b"]),
    min_size=1,
    max_size=20,
).map(" ".join)


def searched(model: QuestionAnswerer, question: str, context: str) -> tuple[list[tuple[str, int, int, float]], float]:
    """Every passage of every window by its score, of a text the best only, and the lowest score of there being none."""
    task = model.task
    tokenizer = task.tokenizer
    asked = tokenizer.encode(question)
    ids, spans = tokenizer.encode_with_spans(context)
    room = task.maximum_length - len(asked) - 3
    starts = [0]
    while starts[-1] + room < len(ids):
        starts.append(starts[-1] + min(task.stride, room))
    windows = [range(start, min(start + room, len(ids))) for start in starts]
    found: list[tuple[float, int, int]] = []
    none = math.inf
    for number, window in enumerate(windows):
        row = [tokenizer.start_id, *asked, tokenizer.end_id, *(ids[token] for token in window), tokenizer.end_id]
        second = len(asked) + 2
        segments = torch.tensor([[int(place >= second) for place in range(len(row))]])
        with torch.no_grad():
            logits = model.model(Tokens.pad([row]), segments).logits[0].tolist()
        none = min(none, logits[0][0] + logits[0][1])
        for first in window:
            around = [min(first - w[0], w[-1] - first) + 0.01 * len(w) if first in w else -1.0 for w in windows]
            if max(range(len(windows)), key=lambda w: (around[w], -w)) != number:
                continue
            for last in range(first, min(first + task.maximum_answer, window[-1] + 1)):
                score = logits[second + first - window[0]][0] + logits[second + last - window[0]][1]
                found.append((score, spans[first][0], spans[last][1]))
    best: dict[str, tuple[str, int, int, float]] = {}
    for score, start, end in sorted(found, key=lambda each: (-each[0], each[1], each[2])):
        best.setdefault(context[start:end], (context[start:end], start, end, score))
    return list(best.values())[:20], none


@pytest.mark.parametrize("unanswerable", [False, True])
@given(context=TEXTS, question=st.sampled_from(["the café", "words of 中", "more"]), seed=st.integers(0, 3))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_answers_are_those_of_a_search_through_everything(
    random_answerer, generator, context, question, seed, unanswerable
):
    generator.manual_seed(seed)
    model = random_answerer(unanswerable)
    if not model.task.tokenizer.encode(context):
        return
    expected, none = searched(model, question, context)
    said = model.answer(question, context, n_best=20)
    assert [(passage.text, passage.start, passage.end) for passage in said.passages] == [each[:3] for each in expected]
    scores = [each[3] for each in expected] + ([none] if unanswerable else [])
    shares = torch.tensor(scores, dtype=torch.float64).softmax(dim=0).tolist()
    for passage, share, (_, _, _, score) in zip(said.passages, shares, expected, strict=False):
        assert passage.probability == pytest.approx(share, rel=1e-4)
        assert passage.start_logit + passage.end_logit == pytest.approx(score, abs=1e-4)
    if unanswerable:
        lead = none - expected[0][3]
        assert said.no_answer_probability == pytest.approx(shares[-1], rel=1e-4)
        assert said.no_answer_score == pytest.approx(lead, abs=1e-4)
        assert (said.text == "") == (lead > 0)
    else:
        assert (said.no_answer_probability, said.no_answer_score) == (None, None)
        assert said.text == expected[0][0]


def test_the_text_is_what_stands_in_the_context(random_answerer):
    model = random_answerer()
    for said in model.answer_batch([("the", CONTEXT), ("中文 words", CONTEXT), ("café", "中" * 40)], n_best=9):
        assert 1 <= len(said.passages) <= 9
        context = CONTEXT if "café" in said.passages[0].text or said.question != "café" else "中" * 40
        for passage in said.passages:
            assert context[passage.start : passage.end] == passage.text
        assert (said.text, said.start, said.end) == (
            said.passages[0].text,
            said.passages[0].start,
            said.passages[0].end,
        )
        assert len({passage.text for passage in said.passages}) == len(said.passages)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
def test_tokens_with_spaces_in_them_give_answers_without(random_answerer, kind):
    model = random_answerer(kind=kind, maximum_question=9)
    said = model.answer("more", CONTEXT, n_best=15)
    assert len(said.passages) == 15
    for passage in said.passages:
        assert CONTEXT[passage.start : passage.end] == passage.text == passage.text.strip() != ""


def test_batches_windows_and_company_do_not_change_an_answer(random_answerer, monkeypatch):
    model = random_answerer(True)
    asked = [("the", CONTEXT), ("words", "café"), ("more of them", CONTEXT * 3), ("the", "a"), ("中", CONTEXT[20:])]
    alone = [model.answer(*pair, n_best=5) for pair in asked]
    monkeypatch.setattr("regard.tasks.question_preparation.TOGETHER", 3)
    monkeypatch.setattr("regard.tasks.question_answering.QUESTIONS_TOGETHER", 2)
    for one, other in zip(alone, model.answer_batch(asked, n_best=5), strict=True):
        assert [passage.text for passage in one.passages] == [passage.text for passage in other.passages]
        assert one.probability == pytest.approx(other.probability, abs=1e-5)
        assert (one.text, one.start) == (other.text, other.start)


def test_how_many_passages_are_wanted_does_not_change_their_probabilities(random_answerer):
    model = random_answerer()
    few, many = model.answer("the", CONTEXT, n_best=2), model.answer("the", CONTEXT, n_best=12)
    assert few.passages == many.passages[:2]
    assert few.alternatives == few.passages[1:]


def test_a_threshold_decides_whether_there_is_an_answer(random_answerer):
    model = random_answerer(True)
    said = model.answer("the", CONTEXT)
    lead = said.no_answer_score
    assert lead is not None
    silent = model.answer("the", CONTEXT, threshold=lead - 0.1)
    assert (silent.text, silent.start, silent.end) == ("", None, None)
    assert silent.probability == silent.no_answer_probability
    assert silent.alternatives == silent.passages == said.passages
    assert model.answer("the", CONTEXT, threshold=lead + 0.1).text == said.passages[0].text
    model.metrics["no_answer_threshold"] = lead - 0.1
    assert model.answer("the", CONTEXT).text == ""


def test_a_model_of_unknown_training_answers_unless_a_threshold_is_named(random_answerer):
    model = random_answerer(None)
    assert model.answer("the", CONTEXT).text
    assert model.answer("the", CONTEXT).no_answer_score is None
    assert model.answer("the", CONTEXT, threshold=-1e9).text == ""


def test_odd_texts_get_an_answer_that_stands_there(random_answerer):
    model = random_answerer()
    for context in ("x", "\0the\0 café\0", "😀" * 300, "the " * 4000, "w" * 5000, "\u202ethe\ufeff", "한국어 ½ ﬁ"):
        said = model.answer("the?", context)
        assert said.start is not None
        assert context[said.start : said.end] == said.text


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([("", "a text")], "question 1: its question is empty"),
        ([("who", "a"), ("who", " \n")], "question 2: its context is empty"),
        ([("who", "\x01\x02")], "question 1: its context has no token that the tokenizer knows"),
        ([("who", "a"), ("the " * 6, "a")], "question 2 has 6 tokens and the model reads 5; shorten it"),
        ([("who", None)], "its context is None; give a text"),
        (["who"], r"give \(question, context\)"),
        ("who", "put both into a list"),
    ],
)
def test_what_cannot_be_answered_is_refused(random_answerer, asked, message):
    with pytest.raises(InputError, match=message):
        random_answerer().answer_batch(asked)


def test_a_threshold_for_a_model_that_always_answers_is_refused(random_answerer):
    with pytest.raises(InputError, match="trained only on questions with answers"):
        random_answerer(False).answer("the", CONTEXT, threshold=1.0)
    with pytest.raises(InputError, match="n_best is 0"):
        random_answerer().answer("the", CONTEXT, n_best=0)
