"""Multiple choice: what is prepared, learnt, chosen, saved, opened elsewhere, and refused."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.choices import ChoiceQuestion
from regard.errors import InputError
from regard.layers import Encoded
from regard.tasks.multiple_choice import ChoiceData, MultipleChoice, prepare_choices, read_questions
from regard.tasks.preparation import EncoderTokenizerSettings

KINDS = {"rains": ["wet", "damp"], "shines": ["warm", "bright"], "snows": ["white", "cold"]}


def made(count: int, seed: int = 0) -> list[tuple[str, list[str], int]]:
    """The right choice has a word that goes with the context's."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        weather = draw.choice(list(KINDS))
        right = draw.choice(KINDS[weather])
        others = [word for other, words in KINDS.items() if other != weather for word in words]
        choices = [f"all is {word}" for word in draw.sample(others, draw.randint(1, 3))]
        answer = draw.randint(0, len(choices))
        choices.insert(answer, f"all is {right}")
        found.append((f"today it {weather} {draw.choice(['here', 'there', 'in town'])}", choices, answer))
    return found


def recipe(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "task": "multiple_choice",
        "seed": 1,
        "model": {
            "name": "bert",
            "width": 32,
            "heads": 2,
            "feedforward_width": 48,
            "layers": 1,
            "maximum_positions": 20,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "init_std": 0.15,
        },
        "data": {"maximum_length": 16},
        "tokenizer": {"size": 120},
        "training": {
            "steps": 120,
            "batch_tokens": 1000,
            "learning_rate": 5e-3,
            "schedule": "linear",
            "warmup": 10,
            "precision": "float32",
            "evaluate_every": 60,
            "save_every": 40,
            "best": "accuracy",
        },
    }
    for key, value in changes.items():
        base[key] = {**base[key], **value}
    return base


@pytest.fixture(scope="module")
def chooser_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("chooser") / "run"
    regard.train(recipe(), output=folder, data=made(300), validation=made(60, seed=1))
    return folder


@pytest.fixture(scope="module")
def chooser(chooser_folder: Path) -> MultipleChoice:
    return regard.load(chooser_folder, task="multiple_choice")


def test_it_learns_what_goes_with_what(chooser):
    found = regard.evaluate(chooser, made(200, seed=2))
    assert found.metrics["accuracy"] > 0.95
    assert found.count == len(found.predictions) == 200
    said = chooser.choose("today it snows here", ["all is wet", "all is bright", "all is white"])
    assert (said.index, said.text) == (2, "all is white")
    assert said.probability == max(said.probabilities)
    assert sum(said.probabilities) == pytest.approx(1.0, abs=1e-6)


def test_what_training_judges_is_what_an_evaluation_finds(chooser_folder, chooser):
    card = json.loads((chooser_folder / "regard.json").read_text())
    assert card["metrics"]["accuracy"] == regard.evaluate(chooser, made(60, seed=1)).metrics["accuracy"]
    assert set(card["metrics"]) == {"loss", "accuracy"}


def test_the_choice_does_not_depend_on_who_else_is_in_the_batch(chooser, monkeypatch):
    asked = [(context, choices) for context, choices, _ in made(30, seed=3)] + [("snows", ["a", "b " * 40])]
    together = chooser.choose_batch(asked)
    monkeypatch.setattr("regard.tasks.multiple_choice.TOGETHER", 7)
    for one, other, alone in zip(
        together, chooser.choose_batch(asked), [chooser.choose(*each) for each in asked], strict=True
    ):
        assert one.index == other.index == alone.index
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
        assert one.probabilities == pytest.approx(alone.probabilities, abs=1e-5)


def test_the_order_of_the_choices_does_not_change_what_is_chosen(chooser):
    context, choices, answer = made(1, seed=4)[0]
    forth, back = chooser.choose(context, choices), chooser.choose(context, choices[::-1])
    assert forth.text == back.text == choices[answer]
    assert forth.probabilities == pytest.approx(back.probabilities[::-1], abs=1e-5)


# --- preparation and loss ---


def prepared(folder: Path, given: Any = None, **changes: Any) -> Any:
    data = ChoiceData(**({"maximum_length": 16} | changes))
    return prepare_choices(data, EncoderTokenizerSettings(size=120), folder, seed=1, given=given)


def test_batches_keep_the_choices_of_a_question_together(tmp_path):
    found = prepared(tmp_path, made(40))
    task, rows = found.task, range(10)
    batch = task.read_batch(found.train, rows)
    assert batch.counts.sum() == len(batch.tokens)
    assert sorted(set(batch.counts.tolist())) == [2, 3, 4]
    questions = read_questions(found.train, rows)
    for row, joined in enumerate(joined for question in questions for joined in question):
        assert batch.tokens.ids[row][batch.tokens.valid[row]].tolist() == joined.ids
        assert int(batch.segments[row].sum()) == batch.tokens.ids.shape[1] - joined.second
        assert task.tokenizer.tokens(joined.ids)[joined.second] == "all"
    lengths = task.lengths(found.train)[:10, 0].tolist()
    assert lengths == [len(question) * max(len(joined.ids) for joined in question) for question in questions]


def test_the_loss_is_the_cross_entropy_over_the_choices_of_each_question(tmp_path):
    found = prepared(tmp_path, made(40))
    batch = found.task.read_batch(found.train, range(12))
    scores = torch.randn(len(batch.tokens), 1, generator=torch.Generator().manual_seed(2), requires_grad=True)
    loss = found.task.loss(lambda tokens, segments, readings: Encoded(scores, None, scores, None), batch)
    total, right, begin = 0.0, 0, 0
    for count, label in zip(batch.counts.tolist(), batch.labels.tolist(), strict=True):
        own = scores[begin : begin + count, 0]
        total -= own.log_softmax(dim=0)[label].item()
        right += int(own.argmax()) == label
        begin += count
    assert loss.total.item() == pytest.approx(total, rel=1e-5)
    assert (loss.tokens, int(loss.correct)) == (12, right)
    loss.total.backward()
    assert scores.grad is not None
    assert (scores.grad != 0).all()


def test_files_of_swag_and_jsonl_are_read_and_contexts_are_not_parted(tmp_path):
    file = tmp_path / "train.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["", "sent1", "sent2", "ending0", "ending1", "ending2", "ending3", "label"])
        for number in range(20):
            writer.writerow(
                [number, f"It rains in town {number // 4}.", "She", "runs.", "flies.", "sings.", "sits.", 2]
            )
    found = prepared(tmp_path / "swag", train=str(file), validation_share=0.2)
    (choices,) = read_questions(found.train, [0])
    assert found.task.tokenizer.decode(choices[2].ids[choices[2].second :]).replace(" ", "") == "shesings."
    texts = [
        {found.task.tokenizer.decode(read_questions(store, [row])[0][0].ids) for row in range(len(store))}
        for store in (found.train, found.validation)
    ]
    assert len(found.train) + len(found.validation) == 20
    assert not texts[0] & texts[1]
    lines = tmp_path / "train.jsonl"
    rows = [{"context": f"It rains {i}.", "choices": ["a", "b", "c"], "answer": i % 3} for i in range(9)]
    rows.append({"context": "It rains.", "choices": ["a", "b"], "answer": 2})
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    other = prepared(tmp_path / "jsonl", train=str(lines))
    assert "1 malformed row was left out (1 answer outside the choices)" in other.notes[0]


def test_long_contexts_are_cut_and_the_user_is_told(tmp_path):
    given = [("long " * 50, ["a", "b"], 0), *made(10)]
    found = prepared(tmp_path, given, maximum_length=12)
    assert any("choices with their contexts were longer than data.maximum_length = 12" in note for note in found.notes)
    assert max(found.train.lengths("text")) <= 4 * 12


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("a", ["b", "c"], 2)], "question 1: its answer is 2; give the number of one of its 2 choices"),
        ([("a", ["b", "c"], True)], "its answer is True"),
        ([("a", ["b"], 0)], "question 1 has 1 choices; give two or more"),
        ([("a", "bc", 0)], "its choices are 'bc'; give a list"),
        ([("", ["b", "c"], 0)], "a context is ''; give a text"),
        ([("a", ["b", " "], 0)], "a choice is ' '; give a text"),
        ([("a", ["b", "c"])], r"give \(context, choices, answer\)"),
        (
            [*made(5), ChoiceQuestion(context="a", choices=("b", "c"), file="f", number=3)],
            "f, question 3: has no correct choice",
        ),
        ([], "give a list of examples"),
        ([("a", ["b", "c"], 0)] * 4, "all training examples belong together"),
    ],
)
def test_questions_that_are_no_use_are_refused(tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, given)


@pytest.mark.parametrize("asked", [[("a", [])], [("a", ["b", 3])], ["a"], "a", [("", ["a", "b"])]])
def test_what_is_no_choice_is_refused(chooser, asked):
    with pytest.raises(InputError):
        chooser.choose_batch(asked)


def test_odd_texts_get_a_choice(chooser):
    for text in ("\0", "🙂", "x" * 10_000, "rains " * 5_000):
        assert chooser.choose(text, ["all is wet", text]).index in (0, 1)


# --- folders ---


def test_saved_again_it_is_the_same(chooser, tmp_path):
    chooser.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy")
    assert again.choose("today it rains", ["wet", "white"]) == chooser.choose("today it rains", ["wet", "white"])


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_a_model_made_elsewhere_gives_its_own_scores(family, chooser, generator, tmp_path):
    transformers = pytest.importorskip("transformers")
    name = {"bert": "Bert", "distilbert": "DistilBert"}[family]
    sizes: dict[str, dict[str, int]] = {
        "bert": {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 10, "num_hidden_layers": 2},
        "distilbert": {"dim": 12, "n_heads": 3, "hidden_dim": 10, "n_layers": 2},
    }
    tokenizer = chooser.task.tokenizer
    config = getattr(transformers, f"{name}Config")(
        vocab_size=tokenizer.size, max_position_embeddings=30, pad_token_id=tokenizer.padding_id, **sizes[family]
    )
    theirs = getattr(transformers, f"{name}ForMultipleChoice")(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
    theirs.save_pretrained(tmp_path / "model")
    tokenizer.save(tmp_path / "model")
    model = regard.load(tmp_path / "model")
    assert isinstance(model, MultipleChoice)
    context, choices, _ = made(1, seed=6)[0]
    read = transformers.BertTokenizer.from_pretrained(tmp_path / "model")
    given = read([context] * len(choices), choices, return_tensors="pt", padding=True)
    if family == "distilbert":
        given.pop("token_type_ids")
    with torch.no_grad():
        logits = theirs(**{key: value[None] for key, value in given.items()}).logits[0]
    assert model.choose(context, choices).probabilities == pytest.approx(logits.softmax(dim=0).tolist(), abs=1e-5)
