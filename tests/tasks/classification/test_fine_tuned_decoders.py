"""GPT fine-tuned (Radford et al. 2018, sections 3.2 and 3.3): its inputs, its auxiliary loss, what a language model becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.checkpoints import read_model
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import GPT2Classifier, GPT2ClassifierConfig
from regard.tasks import TASKS
from regard.tasks.encoders import join
from regard.text import Tokenizer
from regard.training.recipe import read_recipe

TINY = {"name": "gpt2", "width": 16, "heads": 2, "feedforward_width": 24, "layers": 2, "maximum_positions": 24}
QUIET = {"dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.2}
WORDS = ["ape", "bee", "cat", "dog", "emu"]


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """The folder of a language model."""
    folder = tmp_path_factory.mktemp("start") / "lm"
    recipe = {
        "task": "language_modelling",
        "model": {**TINY, **QUIET},
        "data": {"length": 16},
        "tokenizer": {"kind": "byte_bpe", "size": 290},
        "training": {"steps": 20, "learning_rate": 3e-3, "warmup": 2, "batch_tokens": 200, "precision": "float32"},
    }
    texts = [f"the {a} and the {b} meet" for a in WORDS for b in WORDS]
    regard.train(recipe, output=folder, data=texts)
    return folder


def recipe(task: str, start: Path | None, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "task": task,
        "seed": 1,
        "model": {"pretrained": str(start)} if start is not None else {**TINY, **QUIET},
        "data": {"maximum_length": 16},
        "training": {
            "steps": 60,
            "batch_tokens": 300,
            "learning_rate": 3e-3,
            "schedule": "linear",
            "warmup": 5,
            "precision": "float32",
        },
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value}
    return base


def prepared(task: str, start: Path | None, folder: Path, given: Any, **changes: Any) -> Any:
    made = read_recipe(recipe(task, start, **changes))
    return TASKS[task].prepare(folder=folder, seed=1, given=given, given_validation=given, **made.sections)


def model_of(task: Any, **changes: Any) -> GPT2Classifier:
    sizes: dict[str, Any] = {key: value for key, value in {**TINY, **QUIET, **changes}.items() if key != "name"}
    model = GPT2Classifier(GPT2ClassifierConfig(**sizes, **task.model_settings()))
    return model.double().eval()


def sided(count: int) -> list[tuple[str, str]]:
    """Texts whose class is that of their last word."""
    return [(f"the {WORDS[i % 3]} and the {WORDS[i % 5]}", "ab"[i % 5 > 2]) for i in range(count)]


@pytest.mark.parametrize("kind", ["byte_bpe", "word", "bert"])
def test_inputs_are_those_of_the_papers_figure_1(kind):
    tokenizer = Tokenizer.train(["the ape and the bee"] * 3, kind=kind, size=300).with_input_tokens()
    start, between, extract = (tokenizer.id_of(token) for token in ("_start_", "_delimiter_", "_classify_"))
    first, second = tokenizer.encode("the ape"), tokenizer.encode("the bee")
    assert join(tokenizer, first, maximum=99).ids == [start, *first, extract]
    assert join(tokenizer, first, second, maximum=99).ids == [start, *first, between, *second, extract]


def test_what_is_cut_are_texts_and_never_the_tokens_around_them(start, tmp_path):
    data = [(("the ape " * 20, "bee"), "a"), (("ape", "the bee " * 20), "b"), (("cat", "dog"), "a")]
    found = prepared("classification", start, tmp_path / "data", data, data={"maximum_length": 9})
    tokenizer = found.task.tokenizer
    for row in range(3):
        ids = found.train.sequence("text", row).tolist()
        assert len(ids) <= 9
        assert (ids[0], ids[-1]) == (tokenizer.start_id, tokenizer.end_id)
        assert ids.count(tokenizer.separator_id) == 1
    assert any(note.startswith("4 inputs were longer than data.maximum_length = 9") for note in found.notes)


@pytest.mark.parametrize(("task", "both"), [("classification", False), ("classification", True), ("regression", True)])
def test_the_loss_is_that_of_the_task_and_lambda_times_the_language_models(task, both, start, tmp_path, seeded):
    """Equation 5 written out, a text at a time: - log p(y | x) - lambda log p(x_t | x_<t), each a mean."""
    labels = ["a", "b", "b"] if task == "classification" else [1.0, 4.0, 2.5]
    texts = [("the ape", "bee"), ("cat", "the dog and the emu"), ("dog", "dog")]
    data = list(zip(texts, labels, strict=True))
    changes = {"auxiliary": 0.5, "orders": "both" if both else "one"}
    found = prepared(task, start, tmp_path / "data", data, data=changes)
    own, tokenizer = found.task, found.task.tokenizer
    model = model_of(own, dropout=0.0)
    with torch.no_grad():
        loss = own.loss(model, own.read_batch(found.train, [0, 1, 2]))

    start_id, between, extract = tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id
    told: list[float] = []
    task_losses: list[float] = []
    for (first, second), label in data:
        orders = [(first, second), (second, first)] if both else [(first, second)]
        vector = torch.zeros(16, dtype=torch.float64)
        for one, other in orders:
            ids = [start_id, *tokenizer.encode(one), between, *tokenizer.encode(other), extract]
            hidden = model.hidden(Tokens.pad([ids]), model.start(1))[0][0].detach()
            vector = vector + hidden[-1]
            chances = (hidden @ model.embedding.tokens.weight.detach().T).log_softmax(dim=-1)
            told += [
                -float(chances[t - 1, ids[t]]) for t in range(len(ids)) if ids[t] not in (start_id, between, extract)
            ]
        logits = (model.head.output.weight @ vector + model.head.output.bias).detach()
        if task == "classification":
            task_losses.append(-float(logits.log_softmax(dim=-1)["ab".index(str(label))]))
        else:
            task_losses.append(float((logits[0] - (float(label) - own.mean) / own.spread) ** 2))
    beside = loss.auxiliary["next_token"]
    assert (loss.tokens, beside.tokens) == (3, len(told))
    assert int(own.auxiliary_labels(found.train)["next_token"].sum()) == len(told)
    assert float(loss.total) == pytest.approx(sum(task_losses), rel=1e-5)
    assert float(beside.total) == pytest.approx(0.5 * sum(told), rel=1e-5)
    assert own.auxiliary_metrics("next_token", float(beside.total) / len(told), 0.25) == {
        "next_token_loss": pytest.approx(sum(told) / len(told), rel=1e-5),
        "next_token_accuracy": 0.25,
    }


def test_the_auxiliary_loss_counts_every_choice(start, tmp_path, seeded):
    questions = [("it is wet", ["rain", "the sun"], 0), ("it is hot", ["rain", "sun", "snow"], 1)]
    found = prepared(
        "multiple_choice", start, tmp_path / "data", questions, data={"auxiliary": 0.5, "maximum_length": 24}
    )
    task = found.task
    loss = task.loss(model_of(task), task.read_batch(found.train, [0, 1]))
    words = sum(
        len(task.tokenizer.encode(c)) + len(task.tokenizer.encode(a)) for c, several, _ in questions for a in several
    )
    assert loss.auxiliary["next_token"].tokens == words == int(task.auxiliary_labels(found.train)["next_token"].sum())


def test_the_question_stands_before_the_delimiter_where_asked(start, tmp_path):
    lines = [
        {"context": "it rained", "question": "what fell ?", "choices": ["rain", "fire"], "answer": 0},
        {"context": "it burned", "question": "what fell ?", "choices": ["rain", "fire"], "answer": 1},
    ]
    path = tmp_path / "asked.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for place, expected in (
        ("choice", [("it rained", "what fell ? rain"), ("it rained", "what fell ? fire")]),
        ("context", [("it rained what fell ?", "rain"), ("it rained what fell ?", "fire")]),
    ):
        data = {"train": str(path), "validation": str(path), "question": place, "maximum_length": 60}
        found = prepared("multiple_choice", start, tmp_path / place, None, data=data)
        tokenizer, ids = found.task.tokenizer, found.train.sequence("text", 0).tolist()
        texts = []
        while ids:
            end = ids.index(tokenizer.end_id)
            part = ids.index(tokenizer.separator_id)
            texts.append((tokenizer.decode(ids[1:part]), tokenizer.decode(ids[part + 1 : end])))
            ids = ids[end + 1 :]
        assert texts == expected


def test_a_language_model_becomes_a_classifier(start, tmp_path):
    said: list[str] = []
    data = {"auxiliary": 0.5, "validation_share": 0.2}
    run = regard.train(
        recipe("classification", start, data=data), output=tmp_path / "run", data=sided(200), say=said.append
    )
    assert any("new are head and 3 rows of embedding.tokens." in line for line in said)
    assert run.metrics["accuracy"] > 0.9
    assert {"next_token_loss", "next_token_accuracy"} < run.metrics.keys()
    model = run.load()
    assert model.model.config.vocabulary == read_model(start).config.vocabulary + 3
    texts = [text for text, _ in sided(30)] + ["the emu " * 30, "🙂"]
    together = model.classify_batch(texts)
    for text, found in zip(texts, together, strict=True):
        assert model.classify(text).probabilities == pytest.approx(found.probabilities, abs=1e-6)
    evaluated = regard.evaluate(model, sided(200))
    assert evaluated.metrics["accuracy"] > 0.9
    model.save(tmp_path / "again")
    assert regard.load(tmp_path / "again").classify_batch(texts) == together
    with pytest.raises(InputError, match="a model for classification, and sentence embedding is wanted"):
        regard.load(tmp_path / "run", task="sentence_embedding")


def test_a_classifier_can_be_fine_tuned_again_without_growing(start, tmp_path):
    first = recipe("classification", start, training={"steps": 2})
    regard.train(first, output=tmp_path / "first", data=sided(20))
    second = regard.train(
        recipe("classification", tmp_path / "first", training={"steps": 2}), output=tmp_path / "second", data=sided(20)
    )
    assert second.load().model.config.vocabulary == read_model(tmp_path / "first").config.vocabulary


@pytest.mark.parametrize("family", ["GPT2", "OpenAIGPT"])
def test_a_folder_that_transformers_wrote_is_a_start(family, tmp_path):
    """Its config, its weights, its two tokenizer files: the vectors that the head reads are those of transformers' model."""
    transformers = pytest.importorskip("transformers")
    letters = "abcdeghimnoptu"
    pieces = {
        "OpenAIGPT": ["<unk>", *letters, *(f"{letter}</w>" for letter in letters), "ap", "ape</w>", "the</w>", "th"]
    }
    if family == "GPT2":
        Tokenizer.train(["the ape"], kind="byte_bpe", size=260).save(tmp_path)
        size = Tokenizer.load(tmp_path).size
    else:
        ids = {piece: index for index, piece in enumerate(pieces[family])}
        (tmp_path / "vocab.json").write_text(json.dumps(ids))
        (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\na p\nap e</w>\nth e</w>\n")
        size = len(ids)
    sizes = {"vocab_size": size, "n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 24, "eos_token_id": size - 1}
    config = getattr(transformers, f"{family}Config")(**sizes, bos_token_id=size - 1)
    theirs = getattr(transformers, f"{family}LMHeadModel")(config).eval()
    theirs.save_pretrained(tmp_path)
    asked = recipe("classification", tmp_path, training={"steps": 1, "learning_rate": 1e-12})
    model = regard.train(asked, output=tmp_path / "run", data=sided(40)).load()
    assert model.model.config.model_type == {"GPT2": "gpt2_classifier", "OpenAIGPT": "gpt_classifier"}[family]
    assert model.model.config.vocabulary == size + 3
    theirs.resize_token_embeddings(size + 3, mean_resizing=False)
    with torch.no_grad():
        theirs.transformer.get_input_embeddings().weight.copy_(model.model.embedding.tokens.weight)
        ids = join(model.task.tokenizer, model.task.tokenizer.encode("the ape and the bee"), maximum=16).ids
        expected = theirs.transformer(torch.tensor([ids])).last_hidden_state[:, -1]
        torch.testing.assert_close(model.model(Tokens.pad([ids])).pooled, expected, rtol=1e-4, atol=1e-5)


def test_both_orders_of_a_pair_get_the_same_answer(start, tmp_path):
    pairs = [((a, b), 5.0 if a == b else 1.0) for a in WORDS for b in WORDS]
    data = {"orders": "both"}
    rater = regard.train(recipe("regression", start, data=data), output=tmp_path / "run", data=pairs).load()
    for one, other in (("ape", "the bee and the cat"), ("dog", "emu")):
        assert rater.rate((one, other)).value == pytest.approx(rater.rate((other, one)).value, abs=1e-6)
    assert rater.rate_batch([("ape", "bee"), ("the ape and the bee", "cat")])[0].value == pytest.approx(
        rater.rate(("ape", "bee")).value, abs=1e-6
    )


def test_a_decoder_can_be_trained_from_nothing_by_its_plain_name(tmp_path):
    asked = recipe(
        "classification", None, tokenizer={"kind": "byte_bpe", "size": 290, "lowercase": False}, training={"steps": 3}
    )
    assert read_recipe(asked).model["name"] == "gpt2_classifier"
    model = regard.train(asked, output=tmp_path / "run", data=sided(30)).load()
    assert model.task.tokenizer.tokens([model.task.tokenizer.start_id]) == ["_start_"]
    assert read_recipe(tmp_path / "run" / "recipe.yaml") == read_recipe(asked)


def test_scikit_learns_estimators_take_one(start):
    pytest.importorskip("sklearn")
    from regard.estimators import TextClassifier

    texts, labels = zip(*sided(60), strict=True)
    found = TextClassifier(pretrained=str(start), steps=30, learning_rate=5e-3, batch_tokens=300, maximum_length=16)
    assert found.fit(texts, labels).predict_proba(texts[:3]).shape == (3, 2)
    assert found.model_.model.config.model_type == "gpt2_classifier"


def test_a_resumed_run_is_the_run_that_never_stopped(start, tmp_path):
    asked = recipe("classification", start, data={"auxiliary": 0.5}, training={"steps": 12, "save_every": 6})
    half = recipe("classification", start, data={"auxiliary": 0.5}, training={"steps": 6, "save_every": 6})
    half["training"]["schedule"] = asked["training"]["schedule"] = "constant"
    regard.train(asked, output=tmp_path / "one", data=sided(60))
    regard.train(half, output=tmp_path / "two", data=sided(60))
    regard.train(asked, output=tmp_path / "two", data=sided(60), resume=True)
    one, two = (read_model(tmp_path / name).state_dict() for name in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("task", "changes", "data", "message"),
    [
        ("classification", {"data": {"auxiliary": -1}}, sided(20), "data.auxiliary is -1"),
        ("multiple_choice", {"data": {"auxiliary": -1}}, [], "data.auxiliary is -1"),
        (
            "classification",
            {"data": {"orders": "both"}},
            sided(20),
            "data.orders is 'both', and the examples are single",
        ),
        ("classification", {"data": {"orders": "all"}}, sided(20), "orders is 'all'"),
        (
            "classification",
            {"data": {"maximum_length": 40}},
            sided(20),
            "data.maximum_length is 40, and the model has 24",
        ),
        ("tagging", {}, [], "model.name is 'gpt2', which is no model for task tagging"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(task, changes, data, message, start, tmp_path):
    with pytest.raises(InputError, match=message):
        regard.train(recipe(task, start, **changes), output=tmp_path / "run", data=data)


def test_an_auxiliary_loss_needs_a_model_that_tells_next_tokens(tmp_path):
    asked = recipe("classification", None, data={"auxiliary": 0.5})
    asked["model"] = {"name": "bert", **{key: value for key, value in TINY.items() if key != "name"}}
    with pytest.raises(InputError, match=r"data\.auxiliary is 0\.5, and a bert predicts no next token"):
        regard.train(asked, output=tmp_path / "run", data=sided(20))


def test_a_tokenizer_that_is_not_the_models_is_refused(start, tmp_path):
    Tokenizer.train(["a b c d e f g"], kind="byte_bpe", size=300).save(tmp_path / "other")
    other = Tokenizer.train([" ".join(f"w{i}" for i in range(400))], kind="word", size=400)
    other.save(tmp_path / "other")
    asked = recipe("classification", start, tokenizer={"path": str(tmp_path / "other")})
    with pytest.raises(InputError, match="take the folder's own"):
        regard.train(asked, output=tmp_path / "run", data=sided(20))
