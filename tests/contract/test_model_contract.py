"""The contract of encoder-decoders: every such family in `MODELS` passes the same battery. A variant joins by one line."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.errors import InputError
from regard.generation import GenerationSettings, search
from regard.layers import Tokens, join
from regard.models import (
    GNMT,
    MODELS,
    T5,
    Bahdanau,
    BahdanauConfig,
    Cho,
    ChoConfig,
    GNMTConfig,
    Luong,
    LuongConfig,
    Sutskever,
    SutskeverConfig,
    T5Config,
    Transformer,
    TransformerConfig,
)
from regard.tasks.translation import TranslationTask
from regard.testing import check_model
from regard.text import Tokenizer


def bahdanau(**changes: Any) -> BahdanauConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 13,
        "target_vocabulary": 11,
        "embedding_width": 4,
        "hidden_width": 5,
        "attention_width": 7,
        "maxout_width": 3,
        "dropout": 0.3,
    }
    return BahdanauConfig(**(sizes | changes))


def cho(**changes: Any) -> ChoConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 13,
        "target_vocabulary": 11,
        "embedding_width": 4,
        "hidden_width": 6,
        "maxout_width": 5,
        "dropout": 0.3,
    }
    return ChoConfig(**(sizes | changes))


def luong(**changes: Any) -> LuongConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 13,
        "target_vocabulary": 11,
        "embedding_width": 4,
        "hidden_width": 6,
        "layers": 2,
        "dropout": 0.3,
    }
    return LuongConfig(**(sizes | changes))


def gnmt(**changes: Any) -> GNMTConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 13,
        "target_vocabulary": 11,
        "embedding_width": 4,
        "hidden_width": 5,
        "attention_width": 7,
        "layers": 4,
        "dropout": 0.3,
    }
    return GNMTConfig(**(sizes | changes))


def sutskever(**changes: Any) -> SutskeverConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 13,
        "target_vocabulary": 11,
        "embedding_width": 4,
        "hidden_width": 6,
        "layers": 3,
        "dropout": 0.3,
    }
    return SutskeverConfig(**(sizes | changes))


def transformer(**changes: Any) -> TransformerConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 13,
        "target_vocabulary": 13,
        "width": 12,
        "heads": 3,
        "feedforward_width": 10,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "maximum_positions": 16,
        "dropout": 0.3,
        "attention_dropout": 0.2,
        "feedforward_dropout": 0.1,
    }
    return TransformerConfig(**(sizes | changes))


def t5(**changes: Any) -> T5Config:
    sizes: dict[str, Any] = {
        "source_vocabulary": 13,
        "target_vocabulary": 13,
        "width": 12,
        "heads": 3,
        "head_width": 5,
        "feedforward_width": 10,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "buckets": 6,
        "maximum_distance": 5,
        "dropout": 0.2,
    }
    return T5Config(**(sizes | changes))


EXACT = {"rtol": 1e-10, "atol": 1e-12}
VARIANTS = {
    "bahdanau": bahdanau(),
    "bahdanau general": bahdanau(score="general"),
    "bahdanau dot": bahdanau(score="dot"),
    "bahdanau scaled dot": bahdanau(score="scaled_dot"),
    "cho": cho(),
    "cho reset after": cho(cell="gru_after"),
    "cho without gates": cho(cell="tanh"),
    "luong": luong(),
    "luong dot": luong(score="dot", layers=1, reverse_source=False),
    "luong concat": luong(score="concat", layers=1),
    "luong location": luong(score="location", maximum_source=6),
    "luong local-m": luong(attention="local_m", window=2, reverse_source=False),
    "luong local-p": luong(attention="local_p", window=3),
    "luong without feeding": luong(input_feeding=False, layers=1),
    "luong location without feeding": luong(score="location", maximum_source=9, input_feeding=False),
    "luong local-m without feeding": luong(attention="local_m", score="concat", window=2, input_feeding=False),
    "luong local-p without feeding": luong(attention="local_p", score="dot", window=3, input_feeding=False),
    "gnmt": gnmt(),
    "gnmt without residual": gnmt(residual=False),
    "gnmt of two layers": gnmt(layers=2),
    "sutskever": sutskever(),
    "sutskever forwards": sutskever(reverse_source=False),
    "sutskever of one layer": sutskever(layers=1),
    "t5": t5(),
    "t5 1.1": t5(activation="gelu_tanh", gated=True, sharing="inputs", scaled_output=False, alignment_layer=0),
    "transformer": transformer(),
    "transformer pre-norm": transformer(norm="pre", attention_bias=True),
    "transformer learned": transformer(positions="learned", width=15, decoder_layers=3, alignment_layer=0),
    "transformer target-shared": transformer(sharing="target", target_vocabulary=11),
    "transformer without positions": transformer(positions="none", width=15, norm="pre"),
    "transformer relative": transformer(positions="relative", relative_distance=2),
    "transformer unscaled": transformer(scale_power=0.0),
    "transformer unshared": transformer(sharing="none", target_vocabulary=11, norm="pre"),
}

# Where the battery looks into a family: the module that embeds target tokens, and the attention that `alignment` speaks of
# (None: there is none, and the alignment is zero throughout).
SOURCE_ATTENTION = {
    Bahdanau: lambda m: m.decoder.attention.attention,
    Cho: lambda m: None,
    Luong: lambda m: m.decoder.attention.attention,
    GNMT: lambda m: m.decoder.attention.attention,
    Sutskever: lambda m: None,
    T5: lambda m: m.decoder.layers[m.config.alignment_layer].cross_attention.attention,
    Transformer: lambda m: m.decoder.layers[m.config.alignment_layer].cross_attention.attention,
}
CROPPABLE = {
    "transformer": True,
    "t5": True,
    "bahdanau": False,
    "sutskever": False,
    "gnmt": False,
    "cho": False,
    "luong": False,
}

every_variant = pytest.mark.parametrize("variant", VARIANTS)
SOURCES, TARGETS = [6, 3, 5], [4, 5, 2]


@pytest.fixture
def build(seeded, randomize):
    def make(variant: str, dtype: torch.dtype = torch.float64) -> nn.Module:
        config = VARIANTS[variant]
        model = MODELS[config.model_type].model(config)
        return randomize(model, scale=0.8).to(dtype).eval()

    return make


@pytest.fixture
def batch(sentences):
    """A source and a target, each row of another length; the same sentences whichever side is padded."""

    def make(variant: str, *, source: str = "right", target: str = "right") -> tuple[Tokens, Tokens]:
        config = VARIANTS[variant]
        return (
            sentences(SOURCES, config.source_vocabulary, side=source, seed=1),
            sentences(TARGETS, config.target_vocabulary, side=target, seed=2, start=config.start_id),
        )

    return make


def stepped(model: Any, source: Tokens, ids: Tensor) -> tuple[Tensor, list[Any]]:
    """Logits (N, L, V) of feeding `ids` one by one, and the state after each."""
    state = model.start(source)
    logits, states = [], []
    for tokens in ids.unbind(dim=1):
        step, state = model.step(tokens, state)
        logits.append(step)
        states.append(state)
    return torch.stack(logits, dim=1), states


def test_every_registered_family_is_in_the_battery():
    families = {name: family for name, family in MODELS.items() if family.interface == "encoder_decoder"}
    assert {config.model_type for config in VARIANTS.values()} == set(families)
    assert {family.model for family in families.values()} == set(SOURCE_ATTENTION)
    assert set(CROPPABLE) == set(families)


@every_variant
def test_contract(variant):
    assert check_model(VARIANTS[variant])


@every_variant
def test_states_of_transformers_can_be_cropped_and_recurrent_ones_refuse(variant, build, batch):
    source, target = batch(variant)
    _, states = stepped(build(variant), source, target.ids)
    if CROPPABLE[VARIANTS[variant].model_type]:
        assert states[3].crop(2).length == 2
    else:
        with pytest.raises(ValueError, match="does not store"):
            states[3].crop(2)


@every_variant
def test_rows_join_and_leave_at_any_length(variant, build, batch):
    """Rows about sources of different lengths, some steps on and some before their first, go on together as each alone."""
    model = build(variant)
    source, target = batch(variant)
    _, states = stepped(model, source, target.ids[:, :3])
    lone = Tokens.pad([source.ids[0][source.valid[0]][:2].tolist()])
    branched = model.start(lone).reorder(torch.tensor([0, 0]))
    branched = model.step(target.ids[:2, 0], branched)[1].reorder(torch.tensor([1, 1]))
    apart = [states[2], branched, model.start(lone)]
    together = join(apart)
    assert (together.rows, together.width, together.longest) == (6, 1, 3)
    ids = target.ids[:, :2].flatten()
    for _ in range(2):
        found, together = model.step(ids, together)
        expected, apart = zip(
            *(model.step(part, state) for part, state in zip(ids.split([3, 2, 1]), apart, strict=True)), strict=True
        )
        torch.testing.assert_close(found, torch.cat(expected), **EXACT)
    alignment = model.alignment(together)
    first = 0
    for state in apart:
        alone = model.alignment(state)
        there = alignment[first : first + len(alone), : alone.shape[1]]
        torch.testing.assert_close(there, alone, rtol=1e-5, atol=1e-6)
        first += len(alone)
    rows = torch.tensor([5, 3, 0])
    found, _ = model.step(ids[:3], join([together.select(rows)]))
    wanted = [
        model.step(ids[:1], apart[2])[0],
        model.step(ids[1:2], apart[1].select(torch.tensor([0])))[0],
        model.step(ids[2:3], apart[0].select(torch.tensor([0])))[0],
    ]
    torch.testing.assert_close(found, torch.cat(wanted), **EXACT)


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_alignment_is_what_the_attention_saw(variant, side, build, batch):
    """Equal to the weights met in teacher forcing; where the mechanism declares one, a distribution over real source tokens."""
    model = build(variant, torch.float32)
    source, target = batch(variant, source=side)
    caught: list[Tensor] = []
    mechanism: Attention | None = SOURCE_ATTENTION[type(model)](model)
    if mechanism is None:
        _, states = stepped(model, source, target.ids)
        for state in (model.start(source), *states):
            assert torch.equal(model.alignment(state), torch.zeros(source.ids.shape))
        return
    mechanism.register_forward_hook(lambda module, inputs, output: caught.append(module.weights(inputs[0]).mean(dim=1)))
    model(source, target)
    seen = torch.cat(caught, dim=1)  # (B, L, S): all at once, or one step after another
    assert not model.alignment(model.start(source)).any(), "before the first step nothing was looked at"
    _, states = stepped(model, source, target.ids)
    for t, state in enumerate(states):
        alignment = model.alignment(state)
        assert alignment.dtype == torch.float32
        assert alignment.shape == source.ids.shape
        assert (alignment[~source.valid] == 0).all()
        assert (alignment >= 0).all()
        if mechanism.declaration.distribution:
            assert (alignment[source.valid] > 0).all()
            torch.testing.assert_close(alignment.sum(dim=1), torch.ones(3))
        reached = target.valid[:, t]
        torch.testing.assert_close(alignment[reached], seen[reached, t], rtol=1e-5, atol=1e-6)


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_at_some_positions_are_those_of_all(variant, side, build, batch):
    model = build(variant)
    source, target = batch(variant, target=side)
    at = target.valid.flatten().nonzero().squeeze(1).flip(0)[1:]
    logits = model(source, target).flatten(0, 1)
    torch.testing.assert_close(model(source, target, at=at), logits[at], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("variant", ["bahdanau", "transformer"])
def test_a_model_whose_forward_takes_no_positions_trains_with_the_same_loss(variant, build):
    """As a family of one's own, which `docs/extending.md` asks for `forward(source, target)` alone."""
    model = build(variant)
    tokenizer = Tokenizer.train(["ab", "ba", "abab"], kind="character", size=VARIANTS[variant].target_vocabulary)
    task = TranslationTask(source_tokenizer=tokenizer, target_tokenizer=tokenizer)
    batch = task.batch([[5, 6], [6], [5, 5, 6]], [[6, 5, 5], [6], [5, 6]])

    class Plain(nn.Module):
        def forward(self, source: Tokens, target: Tokens) -> Tensor:
            assert model.takes_positions
            return model(source, target)

    found, wanted = task.loss(Plain(), batch, smoothing=0.1), task.loss(model, batch, smoothing=0.1)
    torch.testing.assert_close(found.total, wanted.total, rtol=1e-10, atol=1e-12)
    assert (found.tokens, found.correct) == (wanted.tokens, wanted.correct)


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_training_without_padding_has_the_gradients_of_training_with_it(variant, side, build, batch):
    """A hook inside the model keeps the padding."""
    model = build(variant).train()
    for module in model.modules():
        if isinstance(module, Attention):
            module.dropout = 0.0
        elif hasattr(module, "p"):
            module.p = 0.0
    source, target = batch(variant, source=side, target=side)
    at = target.valid.flatten().nonzero().squeeze(1)
    found = []
    for padded in (False, True):
        if padded:
            next(model.decoder.children()).register_forward_hook(lambda *told: None)
        torch.manual_seed(1)  # of mechanisms that sample
        logits = model(source, target, at=at)
        loss = (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum()
        found.append((logits, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)))
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


@every_variant
def test_a_model_knows_whether_it_has_an_alignment(variant, build, batch):
    """A coverage penalty is refused where there is none, and counts where there is one."""
    model = build(variant)
    source, _ = batch(variant)
    assert model.has_alignment == (SOURCE_ATTENTION[type(model)](model) is not None)
    covering = GenerationSettings(beam=2, coverage_penalty=1.0, maximum_length=3)
    if model.has_alignment:
        plain = search(model, source, GenerationSettings(beam=2, maximum_length=3))
        covered = search(model, source, covering)
        assert all(one[0].score < other[0].score for one, other in zip(covered, plain, strict=True))
        return
    with pytest.raises(InputError, match=r"generation\.coverage_penalty: this model has no attention .* set it to 0"):
        search(model, source, covering)


@every_variant
def test_a_source_of_one_token_gets_all_the_attention(variant, build):
    model = build(variant)
    mechanism: Attention | None = SOURCE_ATTENTION[type(model)](model)
    _, state = model.step(torch.tensor([VARIANTS[variant].start_id]), model.start(Tokens.pad([[4]])))
    weight = model.alignment(state).item()
    if mechanism is None:
        assert weight == 0.0
    elif mechanism.declaration.distribution:
        assert weight == 1.0
    else:
        assert 0.0 < weight <= 1.0


def ties(model: nn.Module) -> set[frozenset[str]]:
    """Names of parameters that are one and the same tensor."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter.data_ptr(), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


@every_variant
def test_tied_weights_stay_tied(variant, build):
    model = build(variant)
    count = {"all": 3, "target": 2, "inputs": 2, "none": 0}[getattr(VARIANTS[variant], "sharing", "none")]
    for moved in (model, model.float(), model.bfloat16(), copy.deepcopy(model)):
        assert sum(map(len, ties(moved))) == count
