"""`regard rank`: depth against rank of encoders and language models, from our folders."""

from __future__ import annotations

import json

import pytest
import torch

import regard
from regard.checkpoints import parameters_of, write_model
from regard.inspection.analysis import relative_residual
from regard.layers import Tokens
from regard.models import (
    GPT2,
    AttentionStack,
    AttentionStackConfig,
    GPT2Config,
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
)
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.text import Tokenizer

TEXTS = ["the cat sat on the mat.", "a dog ran off, far away", "cats and dogs are not unaffable"] * 6
FORMS = ["as it is", "without skips", "without feed-forward", "attention alone"]


@pytest.fixture
def encoder(seeded, tmp_path):
    """A small stack and its tokenizer, in a folder without a card's task."""
    tokenizer = Tokenizer.train(TEXTS, kind="bert", size=70, lowercase=True)
    sizes = {"width": 16, "heads": 2, "feedforward_width": 16, "layers": 3, "maximum_positions": 14}
    model = AttentionStack(
        AttentionStackConfig(vocabulary=tokenizer.size, padding_id=tokenizer.padding_id, **sizes)
    ).eval()
    place = tmp_path / "stack"
    place.mkdir()
    write_model(place, model.config, parameters_of(model), task={}, recipe={}, metrics={})
    (place / "regard.json").unlink()
    tokenizer.save(place)
    return place, model, tokenizer


@pytest.fixture
def language_models(tmp_path, seeded):
    task = LanguageModellingTask(Tokenizer.train(["the cat saw a dog", "a dog saw"], kind="word", size=20))
    settings = task.model_settings()
    models = {
        "lstm": LSTMLanguageModel(LSTMLanguageModelConfig(embedding_width=4, hidden_width=5, dropout=0.0, **settings)),
        "gpt2": GPT2(GPT2Config(width=8, heads=2, feedforward_width=8, layers=2, maximum_positions=8, **settings)),
    }
    for name, model in models.items():
        LanguageModel(model, task).save(tmp_path / name)
    return tmp_path


def test_the_numbers_are_those_of_the_models_own_vectors(command, encoder, tmp_path):
    place, model, tokenizer = encoder
    answer = command("rank", place, "the cat ran.", "a dog sat on the mat.", "--json")
    assert answer.code == 0
    found = json.loads(answer.out)["forms"]
    assert list(found) == FORMS
    for row, text in enumerate(["the cat ran.", "a dog sat on the mat."]):
        ids = [tokenizer.start_id, *tokenizer.encode(text), tokenizer.end_id]
        with torch.no_grad():
            states = model.hidden_states(Tokens.pad([ids]))
        for layer, state in zip(found["as it is"]["layers"], states, strict=True):
            assert layer["residuals"][row] == pytest.approx(relative_residual(state[0]).item(), rel=1e-4)
    bare = found["attention alone"]["layers"]
    assert max(bare[-1]["residuals"]) < 0.01 < min(found["as it is"]["layers"][-1]["residuals"])


def test_a_table_and_a_plot(command, encoder, tmp_path):
    place, _, _ = encoder
    answer = command("rank", place, "the cat ran.")
    assert answer.code == 0
    for name in ("embedding", "layers.2", "without skips"):
        assert name in answer.out
    pytest.importorskip("matplotlib")
    answer = command("rank", place, "the cat ran.", "-o", tmp_path / "depth.png")
    assert (answer.code, answer.out) == (0, "")
    assert "4 forms of 4 layers" in answer.err
    assert (tmp_path / "depth.png").read_bytes()[:4] == b"\x89PNG"


def test_a_language_model_reads_from_the_left(command, language_models):
    answer = command("rank", language_models / "gpt2", "the cat saw a dog", "--json")
    assert answer.code == 0
    found = json.loads(answer.out)["forms"]
    assert [layer["address"] for layer in found["as it is"]["layers"]] == ["embedding", "layers.0", "layers.1"]
    reader = regard.load(language_models / "gpt2", task="language_modelling")
    tokenizer = reader.task.tokenizer
    batch = reader.task.batch([[tokenizer.end_id, *tokenizer.encode("the cat saw a dog"), tokenizer.end_id]])
    with torch.no_grad(), regard.look(reader, hidden=["layers.1"]) as seen:
        reader.model(batch.tokens)
    wanted = relative_residual(seen.hidden("layers.1")[0]).item()
    assert found["as it is"]["layers"][2]["residuals"] == [pytest.approx(wanted, rel=1e-4)]


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("gpt2", [" "], "text 1 is empty"),
        ("gpt2", ["a", "-o", "depth.pdf"], "give a name that ends in .png or .svg"),
        ("gpt2", ["the cat saw " * 9], "positions"),
        ("lstm", ["the cat"], "no block in a LSTMLanguageModel"),
        ("nowhere", ["the cat"], "nowhere"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(command, language_models, name, arguments, says):
    assert says in command("rank", language_models / name, *arguments).refusal()
