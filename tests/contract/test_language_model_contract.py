"""The contract of language models: every such family in `MODELS` passes the same battery, a variant by one line in `VARIANTS`."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import (
    GPT,
    GPT2,
    GPT3,
    LSTMN,
    MODELS,
    GPT2Config,
    GPT3Config,
    GPTConfig,
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
    LSTMNConfig,
    MusicTransformer,
    MusicTransformerConfig,
    Reformer,
    ReformerConfig,
)
from regard.models.config import config_from_json, config_to_json


def lstm(**changes: Any) -> LSTMLanguageModelConfig:
    sizes: dict[str, Any] = {"vocabulary": 11, "embedding_width": 4, "hidden_width": 6, "layers": 3, "dropout": 0.3}
    return LSTMLanguageModelConfig(**(sizes | changes))


def lstmn(**changes: Any) -> LSTMNConfig:
    sizes: dict[str, Any] = {"vocabulary": 11, "embedding_width": 4, "hidden_width": 6, "attention_width": 5}
    return LSTMNConfig(**(sizes | {"dropout": 0.3} | changes))


def reformer(**changes: Any) -> ReformerConfig:
    """Within a chunk, where nothing is cut: what is not exact of longer texts is tested in tests/models/test_reformer.py."""
    sizes: dict[str, Any] = {"vocabulary": 11, "width": 12, "heads": 3, "head_width": 5, "feedforward_width": 20}
    return ReformerConfig(**(sizes | {"maximum_positions": 8, "dropout": 0.3, "chunk": 8, "local_chunk": 8} | changes))


def gpt(kind: type[Any], **changes: Any) -> Any:
    sizes = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 20, "layers": 3, "maximum_positions": 8}
    return kind(**(sizes | {"dropout": 0.3} | changes))


def music(**changes: Any) -> MusicTransformerConfig:
    sizes: dict[str, Any] = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 20, "layers": 3}
    return MusicTransformerConfig(**(sizes | {"maximum_distance": 5, "dropout": 0.3} | changes))


VARIANTS = {
    "gpt": gpt(GPTConfig),
    "gpt2": gpt(GPT2Config),
    "gpt2 of one head": gpt(GPT2Config, heads=1, layers=1, activation="relu"),
    "gpt3": gpt(GPT3Config, band=2),
    "gpt3 of wide bands": gpt(GPT3Config, band=8),
    "reformer": reformer(layers=("lsh", "lsh"), rounds=2),
    "reformer with local layers": reformer(
        layers=("local", "lsh"), local_chunk=2, axial_shape=(2, 4), axial_widths=(4, 8), output_bias=True
    ),
    "lstm": lstm(),
    "lstm of one layer": lstm(layers=1),
    "lstm residual": lstm(residual=True),
    "lstm tied": lstm(embedding_width=6, tied=True, residual=True),
    "lstmn": lstmn(),
    "lstmn of two layers": lstmn(layers=2, attention_width=None),
    "music transformer": music(),
    "music transformer that forgets distances": music(maximum_distance=2, beyond="nothing"),
    "music transformer with sinusoids": music(maximum_distance=3, positions="sinusoidal", maximum_positions=8),
    "music transformer of absolute positions": music(maximum_distance=None, positions="learned", maximum_positions=6),
}
EMBEDDING = {
    LSTMLanguageModel: lambda m: m.embedding,
    LSTMN: lambda m: m.embedding,
    GPT: lambda m: m.embedding.tokens,
    GPT2: lambda m: m.embedding.tokens,
    GPT3: lambda m: m.embedding.tokens,
    Reformer: lambda m: m.embedding.tokens,
    MusicTransformer: lambda m: m.embedding.tokens,
}
CROPPABLE = {"lstm_language_model": False, "lstmn": False, "reformer": True} | dict.fromkeys(
    ("gpt", "gpt2", "gpt3", "music_transformer"), True
)

every_variant = pytest.mark.parametrize("variant", VARIANTS)
EXACT = {"rtol": 1e-10, "atol": 1e-12}
LENGTHS = [4, 6, 2]
KEY_BIAS = "attention.key.bias"


@pytest.fixture
def build(seeded, randomize):
    def make(variant: str, dtype: torch.dtype = torch.float64) -> nn.Module:
        config = VARIANTS[variant]
        return randomize(MODELS[config.model_type].model(config), scale=0.8).to(dtype).eval()

    return make


@pytest.fixture
def batch(sentences):
    """Texts, each of another length; the same whichever side is padded."""

    def make(variant: str, *, side: str = "right") -> Tokens:
        config = VARIANTS[variant]
        return sentences(LENGTHS, config.vocabulary, side=side, seed=1, start=config.end_id)

    return make


def stepped(model: Any, ids: Tensor) -> tuple[Tensor, list[Any]]:
    """Logits (N, L, V) of feeding `ids` one by one, and the state after each."""
    state = model.start(len(ids))
    logits, states = [], []
    for tokens in ids.unbind(dim=1):
        step, state = model.step(tokens, state)
        logits.append(step)
        states.append(state)
    return torch.stack(logits, dim=1), states


def test_every_registered_family_is_in_the_battery():
    families = {name: family for name, family in MODELS.items() if family.interface == "language_model"}
    assert {config.model_type for config in VARIANTS.values()} == set(families) == set(CROPPABLE)
    assert {family.model for family in families.values()} == set(EMBEDDING)


@every_variant
def test_logits_have_the_announced_shape(variant, build, batch):
    logits = build(variant)(batch(variant))
    assert logits.shape == (3, 6, VARIANTS[variant].vocabulary)
    assert logits.isfinite().all()


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_the_rest_of_the_batch_change_nothing(variant, side, build, batch):
    """A row alone, without padding, equals the row in a batch padded on either side; so does one with other ids at padding."""
    model, tokens = build(variant), batch(variant, side=side)
    together = model(tokens)
    filled = model(Tokens(tokens.ids.masked_fill(~tokens.valid, 5), tokens.valid, tokens.padded))
    torch.testing.assert_close(filled[tokens.valid], together[tokens.valid], rtol=0, atol=0)
    for row in range(3):
        alone = model(Tokens.pad([tokens.ids[row][tokens.valid[row]].tolist()]))
        torch.testing.assert_close(together[row][tokens.valid[row]], alone[0], **EXACT)


@every_variant
def test_the_order_of_rows_does_not_matter(variant, build, batch):
    model, tokens = build(variant), batch(variant)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(model(tokens.select(order)), model(tokens)[order], **EXACT)


@every_variant
def test_causal_by_gradient(variant, build, batch):
    """Logits at t depend on the tokens up to t and on none after; and on the token at t itself, and on no other row."""
    model, tokens = build(variant), batch(variant)
    embedded: list[Tensor] = []
    EMBEDDING[type(model)](model).register_forward_hook(lambda module, inputs, output: embedded.append(output))
    logits = model(tokens)
    for t in range(6):
        (gradient,) = torch.autograd.grad(logits[1, t].square().sum(), embedded[-1], retain_graph=True)
        assert (gradient[1, t + 1 :] == 0).all()
        assert (gradient[1, : t + 1].abs().amax(dim=-1) > 0).all()
        assert (gradient[[0, 2]] == 0).all()


@every_variant
def test_stepping_equals_reading(variant, build, batch):
    model, tokens = build(variant), batch(variant)
    logits, states = stepped(model, tokens.ids)
    torch.testing.assert_close(logits[tokens.valid], model(tokens)[tokens.valid], **EXACT)
    assert [state.length for state in states] == [1, 2, 3, 4, 5, 6]


@every_variant
def test_reading_goes_on_where_it_stopped(variant, build, batch):
    """A text read in parts equals the text read at once, wherever it is cut."""
    model, tokens = build(variant), batch(variant)
    whole = model(tokens)
    for cut in range(7):
        first, state = model.read(Tokens(tokens.ids[:, :cut], tokens.valid[:, :cut]), model.start(3))
        second, after = model.read(Tokens(tokens.ids[:, cut:], tokens.valid[:, cut:]), state)
        parts = torch.cat([first, second], dim=1)
        torch.testing.assert_close(parts[tokens.valid], whole[tokens.valid], **EXACT)
        assert (state.length, after.length) == (cut, 6)


@every_variant
def test_prefilling_is_reading_without_the_logits(variant, build, batch):
    model, tokens = build(variant), batch(variant)
    first = Tokens(tokens.ids[:, :4], tokens.valid[:, :4])
    _, read = model.read(first, model.start(3))
    silent = model.prefill(first, model.start(3))
    assert silent.length == read.length
    torch.testing.assert_close(
        model.step(tokens.ids[:, 4], silent)[0], model.step(tokens.ids[:, 4], read)[0], rtol=0, atol=0
    )


@every_variant
def test_states_are_values_and_can_be_selected(variant, build, batch):
    model, tokens = build(variant), batch(variant)
    logits, states = stepped(model, tokens.ids)
    again, _ = model.step(tokens.ids[:, 1], states[0])
    torch.testing.assert_close(again, logits[:, 1], rtol=0, atol=0)
    rows = torch.tensor([2, 0, 0, 1])
    chosen = states[0].select(rows)
    assert chosen.rows == 4
    torch.testing.assert_close(model.step(tokens.ids[rows, 1], chosen)[0], logits[rows, 1], **EXACT)
    branched = states[0].reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    ids = tokens.ids[:, 1].repeat_interleave(2)
    torch.testing.assert_close(model.step(ids, branched)[0], logits[:, 1].repeat_interleave(2, dim=0), **EXACT)


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_hypotheses_about_one_text_share_what_it_passed(variant, side, build, batch):
    """A state that branches, shuffles and loses texts equals one in which every row has its text to itself, and goes on so."""
    model, tokens = build(variant), batch(variant, side=side)
    part = slice(3, 5) if side == "left" else slice(1, 3)
    prompts = Tokens(tokens.ids[:, part], tokens.valid[:, part])
    with torch.no_grad():
        branched = apart = model.prefill(prompts, model.start(3))
        moves = (
            ([0, 0, 1, 1, 2, 2], None),  # two about each
            ([1, 0, 1, 3, 3, 2, 5, 5, 4], None),  # three, out of order
            ([8, 6, 0, 2], [2, 0]),  # the middle text leaves, the others change places
        )
        for rows, texts in moves:
            branched = branched.reorder(torch.tensor(rows), None if texts is None else torch.tensor(texts))
            apart = apart.select(torch.tensor(rows))
            ids = torch.arange(3, 3 + len(rows)) % 8
            logits, branched = model.step(ids, branched)
            expected, apart = model.step(ids, apart)
            torch.testing.assert_close(logits, expected, **EXACT)
        going_on = Tokens(torch.full((4, 1), 4), torch.ones(4, 1, dtype=torch.bool))
        found, after = model.read(going_on, branched)
        torch.testing.assert_close(found, model.read(going_on, apart)[0], **EXACT)
        assert after.rows == 4
        if CROPPABLE[VARIANTS[variant].model_type]:
            for shorter in (after.crop(5), branched.rewound(4)):
                wanted = apart.crop(shorter.length)
                torch.testing.assert_close(model.step(ids, shorter)[0], model.step(ids, wanted)[0], **EXACT)


@every_variant
def test_cropping_a_state(variant, build, batch):
    model, tokens = build(variant), batch(variant)
    logits, states = stepped(model, tokens.ids)
    if CROPPABLE[VARIANTS[variant].model_type]:
        torch.testing.assert_close(model.step(tokens.ids[:, 1], states[3].crop(1))[0], logits[:, 1], **EXACT)
    else:
        with pytest.raises(ValueError, match="does not remember"):
            states[3].crop(2)


@every_variant
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saving_and_loading_is_the_identity(variant, dtype, build, batch, tmp_path):
    model, tokens = build(variant, dtype), batch(variant)
    write_model(tmp_path, model.config, parameters_of(model), task={}, recipe={}, metrics={})
    loaded = read_model(tmp_path).to(dtype)
    torch.testing.assert_close(loaded(tokens), model(tokens), rtol=0, atol=0)


@every_variant
def test_bfloat16_autocast_is_near_float32_and_trains(variant, build, batch):
    model, tokens = build(variant, torch.float32).train(), batch(variant)
    expected = model.eval()(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
        logits.float().square().mean().backward()
    torch.testing.assert_close(logits.float(), expected, rtol=0.1, atol=0.1)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@every_variant
def test_evaluation_is_deterministic_and_training_is_not(variant, build, batch):
    model, tokens = build(variant), batch(variant)
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


@every_variant
def test_every_parameter_learns(variant, build, batch):
    model, tokens = build(variant), batch(variant)
    model(tokens)[tokens.valid].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # A softmax does not feel what all its scores have in common, such as the bias of the keys.
        assert parameter.grad.abs().max() > 1e-9 or name.endswith(KEY_BIAS), name


@every_variant
def test_configs_go_through_json_and_refuse_what_they_do_not_know(variant):
    config = VARIANTS[variant]
    assert config_from_json(type(config), config_to_json(config), "config.json") == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.vocabulary = 5
    with pytest.raises(InputError, match="unknown key"):
        config_from_json(type(config), {**config_to_json(config), "vocabularly": 3}, "config.json")
    with pytest.raises(InputError, match="end_id"):
        dataclasses.replace(config, end_id=11)


@every_variant
def test_nothing_hangs_on_the_model(variant, build, batch):
    """Reading leaves the module as it was: no attribute more, no tensor changed."""
    model, tokens = build(variant), batch(variant)
    before = {name: copy.copy(vars(module)) for name, module in model.named_modules()}
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model(tokens)
    stepped(model, tokens.ids)
    for name, module in model.named_modules():
        assert vars(module).keys() == before[name].keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
