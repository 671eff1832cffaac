"""Question answering from questions to folders: what is learnt, judged, resumed, saved, and opened elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.data.questions import Question, read_predictions, write_candidates, write_no_answer, write_predictions
from regard.errors import InputError
from regard.metrics.answers import squad2_scores, squad_scores
from regard.tasks.question_answering import QuestionAnswerer
from regard.tasks.question_data import QUESTIONS


@pytest.fixture(scope="module")
def answerer(answerer_folder: Path) -> QuestionAnswerer:
    return regard.load(answerer_folder, task="question_answering")


@pytest.fixture(scope="module")
def careful(careful_folder: Path) -> QuestionAnswerer:
    return regard.load(careful_folder, task="question_answering")


# --- what it learns and says ---


def test_it_learns_where_answers_stand(answerer, questions):
    found = regard.evaluate(answerer, questions(200, seed=5))
    assert found.metrics["exact_match"] > 0.9
    assert found.metrics["f1"] >= found.metrics["exact_match"]
    assert set(found.metrics) == {"exact_match", "f1"}
    context = "ba de fi go ku ba de fi go ku ba de fi go ku key da fi"
    said = answerer.answer("who ?", context)
    assert (said.text, context[said.start : said.end], said.start) == ("da", "da", context.index("key") + 4)


def test_it_learns_that_there_may_be_no_answer(careful, questions):
    found = regard.evaluate(careful, questions(200, seed=6, without=0.4))
    for name in ("exact_match", "f1.has_answer", "f1.no_answer", "f1.best"):
        assert found.metrics[name] > 0.9
    assert found.metrics["no_answer_threshold"] == careful.threshold == careful.metrics["no_answer_threshold"]
    assert found.metrics["f1.best"] >= found.metrics["f1"] - 1e-9
    assert careful.answer("who ?", "ba de fi go").text == ""
    assert careful.answer("who ?", "ba de key fi go").text == "fi"


def test_what_training_judges_on_its_store_is_what_an_evaluation_finds(answerer_folder, careful_folder, questions):
    for folder, without in ((answerer_folder, 0.0), (careful_folder, 0.3)):
        card = json.loads((folder / "regard.json").read_text())
        given = questions(100 if without else 80, seed=1, without=without)
        found = regard.evaluate(regard.load(folder), given)
        for name in ("exact_match", "f1"):
            assert card["metrics"][name] == pytest.approx(found.metrics[name], abs=1e-9)
        assert ("no_answer_threshold" in card["metrics"]) == bool(without)


def test_the_official_metrics_of_the_files_that_are_written_are_those_told(careful, questions, tmp_path):
    given = QUESTIONS.in_memory(questions(60, seed=8, without=0.4))
    assert given is not None
    found = regard.evaluate(careful, given, n_best=3)
    right = {question.id: [answer.text for answer in question.answers] for question in given}
    write_predictions(tmp_path / "predictions.json", found.texts)
    scores = squad2_scores(right, read_predictions(tmp_path / "predictions.json")).overall
    assert scores.exact_match / 100 == pytest.approx(found.metrics["exact_match"])
    assert scores.f1 / 100 == pytest.approx(found.metrics["f1"])
    write_no_answer(tmp_path / "none.json", found.no_answer)
    write_candidates(tmp_path / "best.json", found.candidates)
    best = json.loads((tmp_path / "best.json").read_text())
    assert max(map(len, best.values())) == 3
    assert best.keys() == right.keys() == json.loads((tmp_path / "none.json").read_text()).keys()


def test_a_model_that_always_answers_is_judged_on_questions_without_an_answer(answerer, questions):
    given = questions(60, seed=9, without=0.5)
    metrics = regard.evaluate(answerer, given).metrics
    assert metrics["f1.no_answer"] == 0.0
    assert metrics["f1.has_answer"] > 0.9
    assert metrics["f1"] == pytest.approx(0.5, abs=0.2)


def test_a_careful_model_is_judged_on_questions_that_all_have_one(careful, questions):
    found = regard.evaluate(careful, questions(60, seed=10))
    assert found.metrics["exact_match"] > 0.9
    assert "f1.no_answer" not in found.metrics
    assert squad_scores({answer.id: [answer.text] for answer in found.predictions}, found.texts).exact_match == 100


def test_questions_that_are_too_long_are_cut_to_be_judged_and_counted(answerer):
    found = regard.evaluate(answerer, [("who who who who who ?", "ba key de", "de"), ("who ?", "ba key de", "de")])
    assert (found.cut, found.count) == (1, 2)


def test_two_questions_of_one_id_are_refused(answerer):
    question = Question(id="1", question="who", context="ba", impossible=True, file="a", number=1)
    with pytest.raises(InputError, match="two questions have the id '1'"):
        regard.evaluate(answerer, [question, question])
    with pytest.raises(InputError, match="there is nothing to evaluate"):
        regard.evaluate(answerer, [])


# --- training and folders ---


def test_resuming_reads_no_data_anew_and_ends_bit_for_bit_the_same(tiny_recipe, questions, tmp_path, monkeypatch):
    data, validation = questions(60, without=0.3), questions(20, seed=1, without=0.3)
    settings = {"steps": 6, "evaluate_every": 3, "save_every": 3, "batch_tokens": 200, "schedule": "constant"}
    model = {"dropout": 0.1}
    half = tiny_recipe(training={**settings, "steps": 3}, model=model)
    whole = tiny_recipe(training=settings, model=model)
    regard.train(half, output=tmp_path / "run", data=data, validation=validation)
    monkeypatch.setattr("regard.tasks.question_answering.encoded_contexts", None)
    again = regard.train(whole, output=tmp_path / "run", resume=True)
    monkeypatch.undo()
    other = regard.train(whole, output=tmp_path / "other", data=data, validation=validation)
    assert again.metrics == other.metrics
    assert again.steps == other.steps == 6
    same = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "other")]
    assert same[0] == same[1]


def test_saved_again_it_is_the_same(careful, tmp_path):
    careful.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy")
    assert again.task == careful.task
    assert again.threshold == careful.threshold
    assert again.answer("who ?", "ba key de", n_best=4) == careful.answer("who ?", "ba key de", n_best=4)


def test_transformers_opens_the_folder_and_says_the_same(answerer_folder, answerer, questions):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(answerer_folder)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(answerer_folder)
    for question, context, _ in [each for each in questions(30, seed=11) if len(each[1].split()) < 11]:
        given = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
        offsets = given.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            found = model(**given)
        inside = [place for place, sequence in enumerate(given.sequence_ids(0)) if sequence == 1]
        pairs = [(i, j) for i in inside for j in inside if i <= j < i + 3]
        first, last = max(pairs, key=lambda pair: float(found.start_logits[0, pair[0]] + found.end_logits[0, pair[1]]))
        said = answerer.answer(question, context)
        assert (said.start, said.end) == (offsets[first][0], offsets[last][1])
        assert said.passages[0].start_logit == pytest.approx(found.start_logits[0, first].item(), abs=1e-4)


def test_another_task_of_the_folder_is_refused(answerer_folder):
    with pytest.raises(InputError, match="a model for question answering, and classification is wanted"):
        regard.load(answerer_folder, task="classification")


def test_windows_longer_than_the_model_are_refused_before_training(tiny_recipe, questions, tmp_path):
    settings = tiny_recipe(model={"maximum_positions": 16})
    with pytest.raises(InputError, match=r"data\.maximum_length is 17, and the model has 16 positions"):
        regard.train(settings, output=tmp_path / "run", data=questions(20), validation=questions(9, seed=1))


def test_a_validation_set_without_answers_to_learn_is_refused(tiny_recipe, tmp_path):
    settings = tiny_recipe(data={"other_windows": "drop"})
    no_token = Question(id="1", question="who ?", context="ba \x01", answers=(), impossible=False, file="a", number=1)
    answer = QUESTIONS.in_memory([("who ?", "ba \u200b", "\u200b")])
    assert answer is not None
    with pytest.raises(InputError, match="no validation question has an answer in its context"):
        regard.train(settings, output=tmp_path / "run", data=[("who ?", "ba de", "de")] * 4, validation=answer)
    with pytest.raises(InputError, match="a, question 1: has no answer"):
        regard.train(settings, output=tmp_path / "two", data=[no_token], validation=answer)
