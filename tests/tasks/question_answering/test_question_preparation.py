"""From questions to windows: labels, what is left out, which articles are held out, what is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.data.questions import Answer, Question
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import Encoded
from regard.tasks.preparation import Prepared
from regard.tasks.question_answering import QuestionAnsweringTask, prepare_questions
from regard.tasks.question_data import ANSWER, QuestionData, stored_windows

SMALL: dict[str, Any] = {"maximum_length": 12, "stride": 3, "maximum_question": 3, "maximum_answer": 4}
LONG = "one two three four five six seven eight nine ten eleven twelve"
PAIRS = [("who ?", LONG, "eleven twelve"), ("what ?", "one two three", "two"), ("who ?", LONG, "one")]


@pytest.fixture
def prepared(vocabulary) -> Callable[..., Prepared[QuestionAnsweringTask]]:
    """The stores of some questions, validated on `PAIRS` unless others are given."""

    def make(folder: Path, given: Any, validation: Any = None, **changes: Any) -> Prepared[QuestionAnsweringTask]:
        data = QuestionData(**(SMALL | changes))
        return prepare_questions(
            data, vocabulary, folder, seed=1, given=given, given_validation=PAIRS if validation is None else validation
        )

    return make


def told(task: QuestionAnsweringTask, store: TokenStore) -> list[tuple[str, str]]:
    """The question and the labelled words of each window."""
    rows = []
    for row in range(len(store)):
        tokens = task.tokenizer.tokens(store.sequence("text", row).tolist())
        label = store.sequence(ANSWER, row).tolist()
        rows.append((tokens[1], " ".join(tokens[label[0] : label[1] + 1]) if label else ""))
    return rows


def test_windows_without_the_answer_are_dropped_or_point_at_cls(tmp_path, prepared):
    dropped = prepared(tmp_path / "a", PAIRS)
    assert set(told(dropped.task, dropped.train)) == {("who", "eleven twelve"), ("what", "two"), ("who", "one")}
    kept = prepared(tmp_path / "b", PAIRS, other_windows="keep")
    labels = told(kept.task, kept.train)
    assert ("who", "[CLS]") in labels
    assert set(labels) - {("who", "[CLS]")} == set(told(dropped.task, dropped.train))
    # To judge, all windows are needed whatever is learnt from.
    assert len(dropped.validation) == len(kept.validation) == len(kept.train)


def test_where_a_context_may_hold_no_answer_all_windows_are_kept(tmp_path, prepared):
    found = prepared(tmp_path, [*PAIRS, ("when ?", "one two", None)])
    assert found.task.unanswerable is True
    assert ("when", "[CLS]") in told(found.task, found.train)
    assert ("who", "[CLS]") in told(found.task, found.train)


def test_of_several_answers_the_one_that_most_give_is_learnt(tmp_path, prepared):
    answers = (Answer(text="one", start=0), Answer(text="two", start=4), Answer(text="two", start=4))
    question = Question(id="q", question="who ?", context="one two", answers=answers, file="a", number=1)
    found = prepared(tmp_path, [question])
    assert told(found.task, found.train) == [("who", "two")]


def test_the_store_holds_all_that_judging_needs(tmp_path, prepared):
    first = Question(id="ä", question="who ?", context="Café 中文 😀", answers=(), impossible=True, file="a", number=1)
    more = Question(
        id="b", question="what ?", context="Café 中文 😀", answers=(Answer(text="中", start=5),), file="a", number=2
    )
    found = prepared(tmp_path, PAIRS, [first, more, *in_long()], unanswerable=True)
    windows = list(stored_windows(TokenStore.open(tmp_path / "validation")))
    asked = {each.id: each for each, _ in windows}
    assert [asked[id].answers for id in ("ä", "b")] == [(), ("中",)]
    assert asked["ä"].context == asked["b"].context == "Café 中文 😀"
    assert asked["long"].context == LONG
    for each, window in windows:
        tokens = found.task.tokenizer.tokens(window.joined.ids)[window.joined.second : -1]
        stands = [each.context[start:end].lower().replace("é", "e") for start, end in window.spans.tolist()]
        assert [token.removeprefix("##") for token in tokens] == stands
    assert sum(each.id == "long" for each, _ in windows) > 1


def in_long() -> list[Question]:
    return [
        Question(id="long", question="who ?", context=LONG, answers=(Answer(text="one", start=0),), file="a", number=3)
    ]


def test_the_loss_is_the_mean_of_two_cross_entropies_over_the_places_of_the_context(tmp_path, prepared):
    found = prepared(tmp_path, PAIRS, other_windows="keep")
    batch = found.task.read_batch(found.train, range(len(found.train)))
    logits = torch.randn(*batch.tokens.ids.shape, 2, generator=torch.Generator().manual_seed(1), requires_grad=True)
    loss = found.task.loss(lambda tokens, segments: Encoded(logits, None, logits, None), batch)  # type: ignore[arg-type]
    total, right = 0.0, 0
    for row in range(len(found.train)):
        ids = found.train.sequence("text", row).tolist()
        second = found.task.tokenizer
        places = [0, *range(ids.index(second.end_id) + 1, len(ids) - 1)]
        label = found.train.sequence(ANSWER, row).tolist()
        hit = True
        for side in (0, 1):
            own = logits[row, places, side]
            total += F.cross_entropy(own, torch.tensor(places.index(label[side]))).item() / 2
            hit = hit and places[int(own.argmax())] == label[side]
        right += hit
    assert loss.total.item() == pytest.approx(total, rel=1e-5)
    assert (loss.tokens, int(loss.correct)) == (len(found.train), right)
    loss.total.backward()
    assert logits.grad is not None
    assert (logits.grad[0, 1:3] == 0).all()  # the question
    assert (logits.grad[~batch.tokens.valid] == 0).all()
    smoothed = found.task.loss(lambda tokens, segments: Encoded(logits, None, logits, None), batch, smoothing=0.1)  # type: ignore[arg-type]
    assert torch.isfinite(smoothed.total)
    assert smoothed.total.item() > 0.9 * total


def test_windows_that_are_not_learnt_from_are_outside_the_loss(tmp_path, prepared):
    found = prepared(tmp_path, PAIRS)
    batch = found.task.read_batch(found.validation, range(len(found.validation)))
    logits = torch.zeros(*batch.tokens.ids.shape, 2)
    loss = found.task.loss(lambda tokens, segments: Encoded(logits, None, logits, None), batch)  # type: ignore[arg-type]
    assert loss.tokens == len(found.train) < len(found.validation)


def squad(path: Path, articles: int, *, impossible: bool = False) -> Path:
    """A file as the official ones, with three contexts in each article, gzipped."""
    data = []
    for article in range(articles):
        paragraphs = []
        for paragraph in range(3):
            context = f"Article {article} has a paragraph {paragraph} about thing{article}x{paragraph} and more."
            start = context.index("thing")
            answer = {"text": f"thing{article}x{paragraph}", "answer_start": start}
            qas = [
                {"id": f"{article}.{paragraph}.{i}", "question": f"What {i} ?", "answers": [answer]} for i in range(2)
            ]
            if impossible:
                for question in qas:
                    question["is_impossible"] = False
                qas.append(
                    {"id": f"{article}.{paragraph}.no", "question": "Why ?", "answers": [], "is_impossible": True}
                )
            paragraphs.append({"context": context, "qas": qas})
        data.append({"title": f"Title {article}", "paragraphs": paragraphs})
    path.write_bytes(gzip.compress(json.dumps({"version": "v2.0" if impossible else "1.1", "data": data}).encode()))
    return path


@pytest.mark.parametrize("impossible", [False, True])
def test_whole_articles_are_held_out_of_one_file(tmp_path, impossible, vocabulary):
    file = squad(tmp_path / "train.json.gz", 9, impossible=impossible)
    data = QuestionData(train=str(file), maximum_length=60, stride=20, maximum_question=10, validation_share=0.25)
    found = prepare_questions(data, vocabulary, tmp_path / "run", seed=3)
    assert found.task.unanswerable is impossible
    held_out = {asked.context.split()[1] for asked, _ in stored_windows(found.validation)}
    texts = found.task.tokenizer
    learnt = {texts.decode(found.train.sequence("text", row).tolist()) for row in range(len(found.train))}
    assert 2 <= len(held_out) <= 3
    for article in range(9):
        seen = any(f"article {article} has" in text for text in learnt)
        assert seen == (str(article) not in held_out)
    again = prepare_questions(data, vocabulary, tmp_path / "again", seed=3)
    assert {asked.context.split()[1] for asked, _ in stored_windows(again.validation)} == held_out


def test_questions_without_articles_are_held_out_by_context(tmp_path, vocabulary):
    given = [(f"who {i} ?", f"context number {i // 5} here", "here") for i in range(50)]
    found = prepare_questions(QuestionData(**SMALL, validation_share=0.2), vocabulary, tmp_path, seed=0, given=given)
    validation = {asked.context for asked, _ in stored_windows(found.validation)}
    assert len(validation) == 2
    learnt = {
        found.task.tokenizer.decode(found.train.sequence("text", row).tolist()) for row in range(len(found.train))
    }
    assert not any(context in text for context in validation for text in learnt)


def test_one_article_cannot_be_parted(tmp_path, vocabulary):
    file = squad(tmp_path / "one.json.gz", 1)
    with pytest.raises(InputError, match=r"all training examples belong together.*name data\.validation"):
        prepare_questions(QuestionData(train=str(file)), vocabulary, tmp_path / "run", seed=0)


def test_answers_that_do_not_fit_their_place_are_counted_and_left_out(tmp_path, prepared):
    lines = [
        {"context": LONG, "question": f"who {i} ?", "answer": "two", "answer_start": 4} for i in range(8)
    ] + [
        {"context": LONG, "question": "who ?", "answer": "two", "answer_start": 5},
        {"context": LONG, "question": "who ?", "answer": "two", "answer_start": 500},
        {"context": LONG, "question": "who ?"},
    ]  # fmt: skip
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = prepared(tmp_path / "run", None, train=str(file))
    assert len(found.train) > 0
    (note,) = found.notes
    assert note.startswith("3 malformed rows were left out")
    for reason in ("answer is not the text at its position", "answer outside the context", "no answer"):
        assert reason in note


def test_long_questions_are_cut_and_the_user_is_told(tmp_path, prepared):
    found = prepared(tmp_path, [*PAIRS, ("who on earth would that be ?", LONG, "one")])
    assert max(found.train.lengths("text")) <= 12
    assert any("1 question was longer than data.maximum_question = 3 tokens and cut" in note for note in found.notes)


@pytest.mark.parametrize(
    ("given", "changes", "message"),
    [
        (
            [("who", "one two", None)],
            {"unanswerable": False},
            "question 1: has no answer, and every training question needs one",
        ),
        ([("who", "one two", "three")], {}, "question 1: its answer 'three' is not in the context"),
        ([("who", "one two", ("two", 3))], {}, "its answer 'two' is not at 3 of the context's 7 characters"),
        ([("who", "one two", ("two", -3))], {}, "is not in the context"),
        ([("who", "", "a")], {}, "question 1: its context is ''; give a text"),
        ([("who", "one two")], {}, r"give \(question, context, answer\)"),
        ([("who", "one two", " ")], {}, "its answer is empty"),
        ([("who", "one two", 3)], {}, "its answer is 3; give a text"),
        ([], {}, "give a list of examples"),
        (
            [Question(id="1", question="who", context="a b", file="f", number=4)],
            {},
            "f, question 4: has no answer and is not marked as impossible",
        ),
        (
            [Question(id="1", question="who", context="a b", answers=(Answer(text="b", start=0),), file="f", number=4)],
            {},
            "question 1: its answer 'b' is not at 0",
        ),
    ],
)
def test_questions_that_are_no_use_are_refused(tmp_path, given, changes, message, prepared):
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, given, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stride": 7}, r"data\.stride is 7 but must be at least 1 and at most 6"),
        ({"stride": 0}, r"data\.stride is 0"),
        ({"maximum_question": 9}, r"data\.maximum_length is 12 but must be at least 13"),
        ({"maximum_answer": 0}, r"data\.maximum_answer is 0"),
        ({"validation_share": 1.0}, r"data\.validation_share is 1\.0"),
        ({"format": "squadd"}, r"data\.format is 'squadd'; did you mean 'squad'"),
    ],
)
def test_settings_that_are_no_use_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        QuestionData(**(SMALL | changes))


def test_unanswerable_questions_to_validate_on_only_are_refused(tmp_path, prepared):
    with pytest.raises(InputError, match=r"question 2: has no answer, and every training question needs one"):
        prepared(tmp_path, PAIRS, [PAIRS[0], ("who ?", "one two", None)])


def test_unanswerable_questions_in_data_without_are_refused_by_file_and_number(tmp_path, vocabulary):
    file = squad(tmp_path / "train.json.gz", 4, impossible=True)
    data = QuestionData(train=str(file), unanswerable=False)
    with pytest.raises(InputError, match=r"train\.json\.gz, question \d+: has no answer, .*data\.unanswerable=true"):
        prepare_questions(data, vocabulary, tmp_path / "run", seed=0)
