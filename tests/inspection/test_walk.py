"""Walks: what every step shows is recomputed here by other means."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from regard.attention import (
    Additive,
    Attention,
    AttentionInputs,
    Causal,
    Cosine,
    Declaration,
    Dot,
    General,
    Local,
    Location,
    ScaledDot,
    Score,
    ScoredAttention,
    Soft,
)
from regard.attention.layer import split_heads
from regard.errors import InputError
from regard.inspection import walk, walk_attention
from regard.inspection.walk import Step, score_steps
from regard.inspection.walk.watching import layers_of
from regard.layers import Tokens
from regard.models import GPT2, GPT2Config, ViT, ViTConfig
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.tasks.image_classification import ImageClassificationTask, ImageClassifierPredictor
from regard.tasks.images import ImageSize
from regard.tasks.pairs import PairPredictor
from regard.testing.mechanism_inputs import BLIND, visible
from regard.text import Tokenizer

KEYS = ["the", "▁cat", "sat", ".", "</s>"]
FOLDERS = Path(__file__).parents[1] / "golden" / "folders"
LECTURE = ["Queries, keys, values", "Scores", "Scale", "Softmax", "Weigh", "Sum"]


@cache
def contract() -> ModuleType:
    """The contract of attention, for its list of mechanisms."""
    path = Path(__file__).parents[1] / "contract" / "test_attention_contract.py"
    spec = importlib.util.spec_from_file_location("walked_contract", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs_of(generator: torch.Generator, *, heads: int = 1, width: int = 3, **more) -> tuple[AttentionInputs, Tensor]:
    """Two queries and five keys."""
    inputs = AttentionInputs(
        query=torch.randn(1, heads, 2, width, generator=generator),
        key=torch.randn(1, heads, len(KEYS), width, generator=generator),
        **more,
    )
    return inputs, torch.randn(1, heads, len(KEYS), 4, generator=generator)


def titles(seen) -> list[str]:
    return [step.title for step in seen.steps if step.kind == "step"]


def close(actual, expected, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-5, atol=atol)


# Every mechanism.


@pytest.mark.parametrize("mask", ["none", "per head", "blind query", "composed", "row without tokens"])
@pytest.mark.parametrize("name", contract().MECHANISMS)
def test_every_mechanism_of_the_contract_is_walked_to_its_own_weights(name, mask):
    held = contract().held(name)
    case = held.case(heads=(6, 3), mask=held.masks()[mask])
    for row, head, position in ((0, 5, BLIND), (1, 2, 4)):
        seen = walk_attention(case.mechanism, case.inputs, case.value, row=row, head=head, position=position)
        assert titles(seen)[0] == "Queries, keys, values"
        added = ["What the mechanism adds"] if case.mechanism.declaration.extra_output else []
        assert titles(seen)[-2 - len(added) :] == ["Weigh", "Sum", *added]
        weights = case.mechanism.weights(case.inputs)[row, head, position].detach().numpy()
        assert np.array_equal(seen.weights, weights)
        close(seen.step("Sum")["o"], weights @ case.value[row, head // 2].detach().numpy())
        assert float(seen.steps[-1]["largest difference"]) < 1e-5
        seen_keys = visible(case.inputs)[row, head, position]
        assert seen.hidden == tuple((~seen_keys).nonzero()[:, 0].tolist())
        json.loads(seen.to_json())


# The steps of each score and alignment, by plain arithmetic.


def test_the_lectures_six_steps_by_hand():
    """Two keys of width 4, small enough to follow on paper."""
    q = [2.0, 0.0, 0.0, 0.0]
    keys = [[1.0, 5.0, 5.0, 5.0], [3.0, 0.0, 0.0, 0.0]]
    values = [[10.0, 0.0], [0.0, 20.0]]
    inputs = AttentionInputs(query=torch.tensor([[[q]]]), key=torch.tensor([[keys]]))
    seen = walk_attention(ScoredAttention(ScaledDot()), inputs, torch.tensor([[values]]), keys=["a", "b"])
    assert titles(seen) == LECTURE
    assert seen.step("Queries, keys, values")["q"].tolist() == q
    assert seen.step("Queries, keys, values")["k"].tolist() == keys
    assert seen.step("Queries, keys, values")["v"].tolist() == values
    assert seen.step("Scores")["q · k"].tolist() == [2.0, 6.0]
    assert seen.step("Scores")["q * k"].tolist() == [6.0, 0.0, 0.0, 0.0]  # of the key with the larger score
    assert seen.step("Scale")["score"].tolist() == [1.0, 3.0]
    close(seen.step("Softmax")["exp(score - largest)"], [math.exp(-2), 1])
    share = 1 / (1 + math.exp(2))
    close(seen.step("Softmax")["weight"], [share, 1 - share])
    close(seen.step("Weigh")["a v"], [[10 * share, 0], [0, 20 * (1 - share)]])
    close(seen.step("Sum")["o"], [10 * share, 20 * (1 - share)])


def test_scaled_dot_says_what_another_divisor_would_do(generator):
    inputs, value = inputs_of(generator, width=16)
    notes = walk_attention(ScoredAttention(ScaledDot()), inputs, value, keys=KEYS).step("Scale").notes
    raw = (inputs.query @ inputs.key.transpose(-2, -1))[0, 0, 0]
    for divisor in (1, 4, 16):
        assert f"{float((raw / divisor).softmax(0).max()):.4f}" in notes[1]
    assert f"{float(raw.std(correction=0)):.3g} before" in notes[0]


@pytest.mark.parametrize(
    ("power", "equation"),
    [(0.0, "score_j = q · k_j"), (0.5, "score_j = q · k_j / √E"), (1.0, "score_j = q · k_j / E^1")],
)
def test_the_divisor_is_the_scores_own(power, equation, generator):
    inputs, value = inputs_of(generator)
    seen = walk_attention(ScoredAttention(ScaledDot(power)), inputs, value)
    assert seen.step("Scale").equation == equation
    close(seen.step("Scale")["score"], seen.step("Scores")["q · k"] / 3**power)


def test_general(generator, randomize):
    inputs, value = inputs_of(generator)
    score = randomize(General(3))
    seen = walk_attention(ScoredAttention(score), inputs, value, position=1)
    turned = inputs.query[0, 0, 1] @ score.weight.detach()
    close(seen.step("The query through Wa")["u"], turned)
    close(seen.step("Scores")["score"], [float(turned @ key) for key in inputs.key[0, 0]])


def test_additive(generator, randomize):
    inputs, value = inputs_of(generator)
    score = randomize(Additive(3))
    seen = walk_attention(ScoredAttention(score), inputs, value, position=1)
    hidden = [
        [math.tanh(float(a + b)) for a, b in zip(inputs.query[0, 0, 1], key, strict=True)] for key in inputs.key[0, 0]
    ]
    close(seen.step("Query and key meet")["t"], hidden)
    scores = [sum(v * t for v, t in zip(score.weight.tolist(), row, strict=True)) for row in hidden]
    close(seen.step("Scores")["score"], scores)
    best = int(np.argmax(scores))
    close(seen.step("Scores")["va * t"].sum(), scores[best])
    assert "vector" in seen.step("Scores").sentence


def test_location(generator, randomize):
    positions = torch.tensor([[0, 0, 1, 2, 3]])
    inputs, value = inputs_of(generator, key_positions=positions)
    score = randomize(Location(3, maximum=9))
    seen = walk_attention(ScoredAttention(score), inputs, value)
    close(
        seen.step("Scores")["score"],
        [float(score.weight.detach()[place] @ inputs.query[0, 0, 0]) for place in positions[0]],
    )
    assert "keys are not used" in seen.step("Scores").sentence


@pytest.mark.parametrize("own", [False, True])
def test_cosine(own, generator):
    record = {"strength": torch.tensor([[[2.5, 0.5]]])} if own else {}
    inputs, value = inputs_of(generator, record=record)
    seen = walk_attention(ScoredAttention(Cosine(3.0)), inputs, value, position=1)
    query = inputs.query[0, 0, 1]
    cosines = [float(query @ key / (query.norm() * key.norm())) for key in inputs.key[0, 0]]
    close(seen.step("Cosine")["cosine"], cosines)
    close(seen.step("Cosine")["|k|"], inputs.key[0, 0].norm(dim=-1))
    beta = 0.5 if own else 3.0
    assert float(seen.step("Strength")["β"]) == beta
    close(seen.step("Strength")["score"], [beta * each for each in cosines])


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("predicted", [False, True])
def test_local(gaussian, predicted, generator):
    centre = 2.75 if predicted else 3.0
    more = {"record": {"centre": torch.tensor([[[centre, 0.0]]])}} if predicted else {}
    inputs, value = inputs_of(generator, query_positions=torch.tensor([[3, 4]]), **more)
    seen = walk_attention(ScoredAttention(Dot(), Local(1, gaussian=gaussian)), inputs, value, keys=KEYS)
    scores = [float(inputs.query[0, 0, 0] @ key) for key in inputs.key[0, 0]]
    inside = [abs(place - centre) <= 1 for place in range(5)]
    exponentials = [math.exp(score) if within else 0.0 for score, within in zip(scores, inside, strict=True)]
    softmax = [each / sum(exponentials) for each in exponentials]
    assert float(seen.step("Window")["p"]) == centre
    assert seen.step("Window")["inside"].tolist() == [float(each) for each in inside]
    close(seen.step("Softmax inside the window")["weight"], softmax)
    if gaussian:
        bell = [math.exp(-((place - centre) ** 2) / (2 * 0.5**2)) for place in range(5)]
        close(seen.step("Gaussian")["Gaussian"], bell)
        softmax = [a * b for a, b in zip(softmax, bell, strict=True)]
        assert "less than one" in seen.step("Gaussian").sentence
    close(seen.weights, softmax)


def test_what_may_not_be_seen_is_named(generator):
    inputs, value = inputs_of(generator, mask=Causal(offset=1))
    seen = walk_attention(ScoredAttention(ScaledDot()), inputs, value)
    assert seen.hidden == (2, 3, 4)
    assert seen.weights[2:].tolist() == [0, 0, 0]
    assert any("3 keys may not be seen" in note for note in seen.step("Softmax").notes)


def test_double_precision_stays(generator):
    inputs, value = inputs_of(generator)
    double = replace(inputs, query=inputs.query.double(), key=inputs.key.double())
    seen = walk_attention(ScoredAttention(ScaledDot()), double, value.double())
    assert seen.weights.dtype == np.float64
    half = replace(inputs, query=inputs.query.bfloat16(), key=inputs.key.bfloat16())
    assert walk_attention(ScoredAttention(ScaledDot()), half, value.bfloat16()).weights.dtype == np.float32


# Mechanisms the package does not know.


class Halves(Attention):
    """The first two keys share the weight, and one is added to what comes out."""

    @property
    def declaration(self) -> Declaration:
        return Declaration(extra_output=True)

    def weights(self, inputs: AttentionInputs) -> Tensor:
        weights = torch.zeros(inputs.shape)
        weights[..., :2] = 0.5
        return weights

    def extra_output(self, inputs: AttentionInputs, weights: Tensor) -> Tensor:
        return torch.ones(*inputs.shape[:3], 4)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        return self.weights(inputs) @ value + 1


def test_a_mechanism_without_steps_of_its_own_gets_the_general_ones(generator):
    inputs, value = inputs_of(generator)
    seen = walk_attention(Halves(), inputs, value, keys=KEYS)
    assert titles(seen) == ["Queries, keys, values", "Weights", "Weigh", "Sum", "What the mechanism adds"]
    assert "weights[..., :2] = 0.5" in seen.step("Weights").lines[0].text
    close(seen.step("What the mechanism adds")["o + added"], value[0, 0, :2].mean(0) + 1)
    assert float(seen.steps[-1]["largest difference"]) < 1e-6


class Distance(Score):
    """Minus the squared distance."""

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        return -(query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(dim=-1)


class Rooted(Dot):
    """A subclass that computes something else: Dot's steps would be wrong for it."""

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        return super().forward(query, key, inputs) ** 2

    def product_scale(self, width: int) -> None:
        return None


class Renamed(ScaledDot):
    """A subclass that computes what its parent does."""


@pytest.mark.parametrize(("score", "general"), [(Distance(), True), (Rooted(), True), (Renamed(), False)])
def test_steps_belong_to_the_class_that_computes(score, general, generator):
    inputs, value = inputs_of(generator)
    seen = walk_attention(ScoredAttention(score), inputs, value)
    assert ("own rule" in seen.step("Scores").sentence) == general
    assert ("Scale" in titles(seen)) != general
    last = seen.step("Scores" if general else "Scale")
    close(last["score"], score(inputs.query, inputs.key)[0, 0, 0])


class Total(Score):
    """All entries of both, added up."""

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        return query.sum(-1).unsqueeze(-1) + key.sum(-1).unsqueeze(-2)


class SameTotal(Total):
    """Inherits what it computes, and so its steps."""


@pytest.mark.parametrize("score", [Total(), SameTotal()])
def test_a_score_may_bring_its_own_steps(score, generator):
    @score_steps.register(Total)
    def _(score: Total, scene):
        scores = score(scene.query, scene.key)
        return [Step(title="Added up", sentence="All of it.", shown=(scene.per_key("s", scene.mine(scores)),))], scores

    inputs, value = inputs_of(generator)
    seen = walk_attention(ScoredAttention(score), inputs, value)
    assert titles(seen)[1:3] == ["Added up", "Softmax"]
    assert seen.step("Added up").lines[0].symbol == "ScoredAttention.aligned"


# Models.


def test_a_layer_is_walked_from_its_vectors_to_its_output(translator):
    looked_at = translator("transformer", norm="post")
    address = "encoder.layers.0.attention"
    seen = walk(looked_at, "abcd", "c", layer=address, head=1)
    layer = layers_of(looked_at.model)[address]
    source = looked_at.task.read([looked_at.task.source_tokenizer.encode("abcd")])
    with torch.no_grad():
        x = looked_at.model.encoder.embedding(source.ids, torch.arange(5).unsqueeze(0))
        q, k, v = (split_heads(part(x), 3) for part in (layer.query, layer.key, layer.value))
        output = layer(x, layer.keys_values(x))
    assert titles(seen) == LECTURE
    assert (seen.query, seen.position, seen.head, seen.heads) == ("c", 2, 1, 3)
    assert seen.keys == seen.queries == ("a", "b", "c", "d", "</s>")
    first = seen.step("Queries, keys, values")
    close(first["x"], x[0, 2])
    close(first["q"], q[0, 1, 2])
    close(first["k"], k[0, 1])
    close(first["v"], v[0, 1])
    scores = [float(q[0, 1, 2] @ key) / math.sqrt(4) for key in k[0, 1]]
    close(seen.step("Scale")["score"], scores)
    weights = np.exp(scores) / np.exp(scores).sum()
    close(seen.weights, weights)
    close(seen.step("Sum")["o"], weights @ v[0, 1].numpy())
    last = seen.step("The output projection")
    close(last["output"], output[0, 2])
    close(last["Wo_h o_h"], (weights @ v[0, 1].numpy()) @ layer.output.weight[:, 4:8].detach().numpy().T)
    assert last["share"].sum() == pytest.approx(1, abs=1e-5)
    assert float(seen.steps[-1]["largest difference"]) < 1e-5
    assert {letter: size for letter, _, size in seen.sizes} == {
        "B": 1, "H": 3, "L": 5, "S": 5, "E": 4, "Ev": 4, "D": 12,
    }  # fmt: skip


def test_biases_are_said_and_shared_out(translator):
    seen = walk(translator("transformer", attention_bias=True), "abcd", "c", layer="encoder.layers.0.attention")
    assert "have biases: bq, bk, bv" in " ".join(seen.step("Queries, keys, values").notes)
    last = seen.step("The output projection")
    assert last.shown[2].labels == ("head 0", "head 1", "head 2", "bias")
    assert last["share"].sum() == pytest.approx(1, abs=1e-5)
    assert float(last["largest difference"]) < 1e-5


def test_a_text_too_long_to_show_is_refused_before_it_is_read(translator):
    model = translator("bahdanau")
    with pytest.raises(InputError, match="the text has 5,000 tokens and a walk shows at most 1,024; shorten it"):
        walk(model, "a" * 5000, position=0)
    with pytest.raises(InputError, match="the target has 5,000 tokens"):
        walk(model, "abcd", position=0, target="D" * 5000)


def test_by_default_the_last_layer_over_the_source_and_its_most_peaked_head(translator):
    looked_at = translator("transformer")
    seen = walk(looked_at, "abcd", position=0, target="DCB")
    assert seen.address == "decoder.layers.1.cross_attention"
    assert seen.queries == ("D", "C", "B", "</s>")
    assert seen.keys == ("a", "b", "c", "d", "</s>")
    batch = looked_at.teacher_forced([("abcd", "DCB")])
    with regard.look(looked_at.model) as record, torch.no_grad():
        looked_at.model(batch.source, batch.target)
    weights = record.weights(seen.address)[0, :, 0]
    assert seen.head == int(weights.max(dim=-1).values.argmax())
    close(seen.weights, weights[seen.head])
    assert "with the largest single weight" in seen.notes[0]
    assert walk(looked_at, "abcd", position=0, target="DCB", head=2).head == 2


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("bahdanau", {}),
        ("bahdanau", {"score": "general"}),
        ("bahdanau", {"score": "scaled_dot"}),
        ("luong", {}),
        ("luong", {"attention": "local_m"}),
        ("luong", {"attention": "global", "score": "concat", "input_feeding": False}),
        ("luong", {"attention": "global", "score": "location"}),
    ],
)
def test_recurrent_aligners_are_walked_step_by_step(family, changes, translator):
    looked_at = translator(family, **changes)
    batch = looked_at.teacher_forced([("abcd", "DCB")])
    with regard.look(looked_at.model) as record, torch.no_grad():
        looked_at.model(batch.source, batch.target)
    weights = record.weights("decoder.attention")[0, 0]
    for position, word in enumerate(("D", "C", "B")):
        seen = walk(looked_at, "abcd", word, target="DCB")
        assert (seen.address, seen.position, seen.heads) == ("decoder.attention", position, 1)
        close(seen.weights, weights[position])
        assert float(seen.steps[-1]["largest difference"]) < 1e-5
        assert "Content and position" not in [step.title for step in seen.steps]
        state = "before the step" if family == "bahdanau" else "after the step"
        assert state in seen.step("Queries, keys, values").sentence


def test_the_models_own_answer_is_the_target_by_default(translator):
    looked_at = translator("bahdanau")
    answer = looked_at.translate("abc")
    seen = walk(looked_at, "abc", position=0)
    assert seen.title == f"abc → {answer.text}"
    assert seen.queries[: len(answer.target_tokens)] == answer.target_tokens
    assert any("own answer" in note for note in seen.notes)


def test_the_target_side_sees_only_its_past(translator):
    seen = walk(translator("transformer"), "abcd", "C", target="DCB", layer="decoder.layers.0.attention")
    assert seen.queries == seen.keys
    assert seen.queries[1:] == ("D", "C", "B")
    assert seen.hidden == (3,)


def test_a_model_in_half_precision_says_where_the_difference_is_from(translator):
    seen = walk(translator("transformer").to(torch.bfloat16), "abcd", "c", layer="encoder.layers.0.attention")
    assert seen.weights.dtype == np.float32
    assert 0 < float(seen.steps[-1]["largest difference"]) < 0.1
    assert "computes in bfloat16" in seen.steps[-1].notes[0]
    assert walk(translator("transformer"), "abcd", "c", layer="encoder.layers.0.attention").steps[-1].notes == ()


@pytest.mark.parametrize("layer", ["encoder.layers.0.attention", "decoder.layers.1.cross_attention"])
def test_a_path_that_strays_from_the_equation_is_seen(layer, translator):
    looked_at = translator("transformer")
    mechanism = layers_of(looked_at.model)[layer].attention
    plain = mechanism.forward
    mechanism.forward = lambda inputs, value: plain(inputs, value) + 0.25
    seen = walk(looked_at, "abcd", position=0, layer=layer, target=None if layer.startswith("e") else "DCB")
    assert float(seen.steps[-1]["largest difference"]) == pytest.approx(0.25, abs=1e-4)
    assert float(seen.steps[-1]["largest difference of a weight"]) == 0


def test_walking_changes_nothing_in_the_model(translator):
    looked_at = translator("transformer")
    before = looked_at.translate("abcd")
    walk(looked_at, "abcd", position=0)
    assert looked_at.translate("abcd") == before
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in looked_at.model.modules())


# What is refused.


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"query": "x"}, "“x” is not among the tokens: 0 D, 1 C, 2 D, 3 </s>"),
        ({"query": "D"}, "“D” occurs 2 times, at 0 and 2; choose one with position"),
        ({"query": "D", "position": 1}, "“D” is not at position 1; it is at 0 and 2"),
        ({"position": 9}, "position is 9; the tokens are counted from 0: 0 D"),
        ({}, "name the token to follow, with query"),
        ({"query": "C", "head": 3}, "head is 3; the layer has heads 0 to 2"),
        ({"query": "C", "layer": "encoder.layer.0.attention"}, "did you mean 'encoder.layers.0.attention'?"),
        ({"query": "C", "target": " "}, "the target is empty"),
        ({"query": "C", "to": "de"}, "one language only"),
    ],
)
def test_what_cannot_be_walked_through_is_told_so(options, sentence, translator):
    given = {"target": "DCD"} | options
    with pytest.raises(InputError) as caught:
        walk(translator("transformer"), "abcd", **given)
    assert sentence in str(caught.value)


def test_a_word_of_the_other_side_is_told_where_it_asks(translator):
    with pytest.raises(
        InputError, match=r"“a” is not among .*; it is among those looked at, and asks in encoder.layers.0"
    ):
        walk(translator("transformer"), "abcd", "a", target="GFE")
    with pytest.raises(InputError, match=r"“a” is not among the tokens: .*; here it is only looked at$"):
        walk(translator("luong"), "abcd", "a", target="GFE")


def test_a_layer_that_is_passed_by_is_told_so(translator):
    looked_at = translator("luong")
    looked_at.model.never = looked_at.model.decoder.attention.__class__(
        query=nn.Identity(), key=nn.Identity(), value=nn.Identity(), output=nn.Identity(), attention=Halves()
    )
    with pytest.raises(InputError, match="never was not called while the model read this"):
        walk(looked_at, "abcd", "a", layer="never")


def test_a_layer_whose_projections_are_passed_by_is_walked_from_the_mechanism(translator, monkeypatch):
    looked_at = translator("transformer")
    layer = looked_at.model.encoder.layers[0].attention
    monkeypatch.setattr(
        layer, "attend", lambda inputs, value: layer.attention(inputs, value).transpose(1, 2).flatten(-2)
    )
    seen = walk(looked_at, "abcd", "c", layer="encoder.layers.0.attention")
    assert titles(seen) == LECTURE
    assert "What the mechanism is given" in seen.steps[0].sentence
    assert [step.title for step in seen.steps if step.kind == "aside"] == ["The same by the model's own path"]


def test_a_model_without_attention_and_what_is_no_model(model, translator):
    looked_at = translator("bahdanau")
    looked_at.model = nn.Linear(2, 2)
    with pytest.raises(InputError, match="no attention in this model to walk through"):
        walk(looked_at, "abc", "a")
    with pytest.raises(InputError, match="a Linear cannot be walked through"):
        walk(nn.Linear(2, 2), "abc", "a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the text is empty"):
        walk(translator("bahdanau"), " ", "a")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"row": 1}, "row is 1; there are 1"),
        ({"position": 2}, "position is 2; there are 2"),
        ({"head": -1}, "head is -1; there are 1"),
        ({"keys": ["a"]}, "keys: 1 names for 5"),
    ],
)
def test_a_place_that_is_not_there(options, sentence, generator):
    inputs, value = inputs_of(generator)
    with pytest.raises(InputError) as caught:
        walk_attention(ScoredAttention(Dot(), Soft()), inputs, value, **options)
    assert sentence in str(caught.value)


# As data.


def test_json_has_every_number_to_the_last_bit(translator):
    seen = walk(translator("transformer"), "abcd", "c", layer="encoder.layers.0.attention")
    read = json.loads(seen.to_json())
    assert [step["title"] for step in read["steps"]] == [step.title for step in seen.steps]
    for one, step in zip(read["steps"], seen.steps, strict=True):
        for stored, item in zip(one["shown"], step.shown, strict=True):
            assert np.array_equal(np.array(stored["values"], dtype=np.float32), item.values)
            assert stored["letters"] == item.letters


def test_a_step_and_its_numbers_are_asked_for_by_name(generator):
    inputs, value = inputs_of(generator)
    seen = walk_attention(ScoredAttention(Dot()), inputs, value)
    with pytest.raises(InputError, match="no step 'Skale'; it has Queries, keys, values, Scores"):
        seen.step("Skale")
    with pytest.raises(InputError, match="shows no 'w'; it shows q \\* k, score"):
        seen.step("Scores")["w"]
    with pytest.raises(ValueError, match="read-only"):
        seen.weights[0] = 1


def test_a_language_model_is_walked_through():
    torch.manual_seed(3)
    task = LanguageModellingTask(Tokenizer.train(["a cat sat on a mat"], kind="word", size=20))
    config = GPT2Config(**task.model_settings(), width=12, heads=3, layers=2, feedforward_width=10, maximum_positions=9)
    model = LanguageModel(GPT2(config), task)
    seen = walk(model, "a cat sat", "cat", head=1, layer="layers.1.attention")
    assert seen.queries == seen.keys == ("</s>", "▁a", "▁cat", "▁sat")
    assert [step.title for step in seen.steps if step.kind == "step"] == LECTURE
    ids = [task.tokenizer.end_id, *task.tokenizer.encode("a cat sat")]
    with torch.no_grad(), regard.look(model) as record:
        model.model(Tokens.pad([ids]))
    close(seen.step("Softmax")["weight"], record.weights("layers.1.attention")[0, 1, 2])
    for name, given in {"target": "a", "to": "de"}.items():
        with pytest.raises(InputError, match=f"{name} is for models that translate"):
            walk(model, "a cat sat", "cat", **{name: given})
    with pytest.raises(InputError, match="the text is empty"):
        walk(model, " ", "cat")


def test_an_encoder_is_walked_through(minilm):
    model = regard.load(minilm)
    seen = walk(model, "The dog sleeps", "dog", head=2, layer="layers.0.attention")
    assert seen.queries == ("[CLS]", "the", "dog", "sleeps", "[SEP]")
    with regard.look(model) as record:
        model.embed(["The dog sleeps"])
    close(seen.step("Softmax")["weight"], record.weights("layers.0.attention")[0, 2, 2])


def test_a_classifier_of_images_is_walked_through():
    """Against the equation of a ViT's first layer, from the image's patches on."""
    torch.manual_seed(4)
    task = ImageClassificationTask(size=ImageSize(height=8, width=8), classes=("0", "1"))
    config = ViTConfig(**task.model_settings(), patch=4, width=8, heads=2, layers=1, feedforward_width=8)
    model = ImageClassifierPredictor(ViT(config), task)
    image = np.random.default_rng(0).integers(0, 256, (8, 8, task.size.channels), dtype=np.uint8)
    seen = walk(model, image, "patch 1,2", head=1)
    assert seen.queries == seen.keys == ("[CLS]", "patch 1,1", "patch 1,2", "patch 2,1", "patch 2,2")
    assert seen.title == f"image 1, predicted class: {model.classify(image).label}"
    with regard.look(model) as record:
        model.classify(image)
    assert record.view(0).maps[0].key_tokens == seen.keys
    assert titles(seen) == LECTURE
    layer = model.model.layers[0].attention
    kept = []
    handle = layer.query.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    model.classify(image)
    handle.remove()
    with torch.no_grad():
        q, k, v = (part(kept[0][0])[:, 4:] for part in (layer.query, layer.key, layer.value))  # head 1 of two, 4 wide
    weights = (q[2] @ k.T / 2).softmax(dim=-1)
    close(seen.weights, weights)
    close(seen.step("Sum")["o"], weights @ v)


def test_a_hierarchical_network_is_walked_through():
    """Yang et al. 2016, equations 5 to 7: u = tanh(W h + b), a = softmax(u . u_w), s = sum a h."""
    model = regard.load(FOLDERS / "han")
    seen = walk(model, "a b c", position=0, layer="words.attention")
    assert seen.queries == ("S1",)
    assert "context vector of the words, u_w" in seen.steps[0].sentence
    first = seen.step("Queries, keys, values")
    assert "k = tanh(Wk y + bk)" in first.equation
    words = [place for place in range(len(seen.keys)) if place not in seen.hidden]
    projected = model.model.words.attention.key
    with torch.no_grad():
        h = torch.tensor(np.asarray(first["v"]), dtype=torch.float32)
        u = torch.tanh(h @ projected[0].weight.T + projected[0].bias)
        weights = (u[words] @ model.model.words.context).softmax(dim=-1)
    close(seen.weights[words], weights)
    close(seen.step("Sum")["o"], weights @ h[words])
    document = walk(model, "a b c", position=0, layer="sentences.attention")
    assert (document.queries, document.keys) == (("document",), ("S1",))
    close(document.step("Queries, keys, values")["v"].shape, (1, h.shape[1]))


@pytest.mark.parametrize(
    "name",
    ["bert", "bert-tagging", "modernbert", "gpt", "gpt2", "gpt_neox", "llama", "t5-text-to-text", "bart-denoising", "bahdanau",
     "luong", "gnmt", "transformer", "transformer-pre", "han"],
)  # fmt: skip
def test_every_family_is_walked_to_what_its_own_path_gives(name):
    model = regard.load(FOLDERS / name)
    written = {"target": "a b"} if isinstance(model, PairPredictor) else {}
    for address in layers_of(model.model):
        seen = walk(model, "a b c", position=0, layer=address, **written)
        close(seen.step("Sum")["o"], seen.weights @ seen.step("Queries, keys, values")["v"])
        assert float(seen.steps[-1]["largest difference of a weight"]) < 1e-5


def test_another_query_of_the_same_head():
    model = regard.load(FOLDERS / "gpt2")
    seen = walk(model, "a b c", position=1, head=1)
    other = seen.at(2)
    assert (other.position, other.head, other.address) == (2, 1, seen.address)
    close(other.weights, walk(model, "a b c", position=2, head=1).weights)
    assert seen.at(1) is seen
    with pytest.raises(InputError, match="position is 99; the queries are counted from 0 to"):
        seen.at(99)


def test_what_has_no_walk_says_what_has():
    for name in ("show_and_tell", "lstm_transducer", "elmo"):
        with pytest.raises(InputError, match="there is no attention in this model to walk through"):
            walk(regard.load(FOLDERS / name), "a", "a")
