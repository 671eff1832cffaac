"""The contract of encoder-decoders: every such family in `MODELS` passes the same battery. A variant joins by one line."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, RelativeDot, Score, ScoredAttention
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.generation import GenerationSettings, search
from regard.layers import NEVER, Tokens
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
from regard.models.config import config_from_json, config_to_json


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
TARGET_EMBEDDING = {
    Bahdanau: lambda m: m.decoder.embedding,
    Cho: lambda m: m.decoder.embedding,
    Luong: lambda m: m.decoder.embedding,
    GNMT: lambda m: m.decoder.embedding,
    Sutskever: lambda m: m.decoder.embedding,
    T5: lambda m: m.decoder.embedding,
    Transformer: lambda m: m.decoder.embedding,
}
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
EXACT = {"rtol": 1e-10, "atol": 1e-12}
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


def real(logits: Tensor, target: Tokens) -> Tensor:
    """The logits of real tokens only, row after row; what is ruled out by a huge number would hide the others, so 0 there."""
    chosen = logits[target.valid]
    return chosen.masked_fill(chosen <= 0.9 * NEVER, 0.0)


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
    assert {family.model for family in families.values()} == set(TARGET_EMBEDDING) == set(SOURCE_ATTENTION)
    assert set(CROPPABLE) == set(families)


@every_variant
def test_logits_have_the_announced_shape(variant, build, batch):
    source, target = batch(variant)
    logits = build(variant)(source, target)
    assert logits.shape == (3, 5, VARIANTS[variant].target_vocabulary)
    assert logits.isfinite().all()


@every_variant
@pytest.mark.parametrize("source_side", ["left", "right"])
@pytest.mark.parametrize("target_side", ["left", "right"])
def test_padding_and_the_rest_of_the_batch_change_nothing(variant, source_side, target_side, build, batch):
    """A row alone, without padding, equals the row in a batch padded on either side."""
    model = build(variant)
    source, target = batch(variant, source=source_side, target=target_side)
    together = model(source, target)
    for row in range(3):
        alone = [Tokens.pad([side.ids[row][side.valid[row]].tolist()]) for side in (source, target)]
        torch.testing.assert_close(together[row][target.valid[row]], model(*alone)[0], **EXACT)


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_stands_at_padding_is_never_looked_at(variant, side, build, batch):
    """Other ids at padded source keys and target places: nothing that is real moves."""
    model = build(variant)
    source, target = batch(variant, source=side, target=side)
    filled = [Tokens(tokens.ids.masked_fill(~tokens.valid, 5), tokens.valid) for tokens in (source, target)]
    expected = real(model(source, target), target)
    torch.testing.assert_close(real(model(*filled), target), expected, rtol=0, atol=0)


@every_variant
def test_real_source_tokens_do_matter(variant, build, batch):
    """The counterpart of the padding tests: each real source token moves its own row's logits, and no other row's."""
    model = build(variant)
    source, target = batch(variant)
    plain = model(source, target)
    for row, slot in [(0, 0), (0, 5), (1, 2), (2, 4)]:
        ids = source.ids.clone()
        ids[row, slot] = 3 + (ids[row, slot] - 3 + 1) % 8
        moved = (model(Tokens(ids, source.valid), target) - plain).abs().amax(dim=(1, 2))
        assert moved[row] > 1e-6
        others = [other for other in range(3) if other != row]
        assert (moved[others] < 1e-12).all()


@every_variant
def test_the_order_of_rows_does_not_matter(variant, build, batch):
    model = build(variant)
    source, target = batch(variant)
    order = torch.tensor([2, 0, 1])
    expected = model(source, target)[order]
    torch.testing.assert_close(model(source.select(order), target.select(order)), expected, **EXACT)


@every_variant
def test_causal_by_gradient(variant, build, batch):
    """Logits at t depend on the target inputs up to t and on none after; and on the input at t itself."""
    model = build(variant)
    source, target = batch(variant)
    embedded: list[Tensor] = []
    TARGET_EMBEDDING[type(model)](model).register_forward_hook(lambda module, inputs, output: embedded.append(output))
    logits = model(source, target)
    row, length = 1, 5
    for t in range(length):
        (gradient,) = torch.autograd.grad(logits[row, t].square().sum(), embedded[-1], retain_graph=True)
        assert (gradient[row, t + 1 :] == 0).all()
        assert (gradient[row, : t + 1].abs().amax(dim=-1) > 0).all()
        assert (gradient[[0, 2]] == 0).all()


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_stepping_equals_teacher_forcing(variant, side, build, batch):
    """The cached decoder and the whole-sequence one are the same function."""
    model = build(variant)
    source, target = batch(variant, source=side)
    logits, states = stepped(model, source, target.ids)
    torch.testing.assert_close(real(logits, target), real(model(source, target), target), **EXACT)
    assert [state.length for state in states] == [1, 2, 3, 4, 5]


@every_variant
def test_stepping_from_an_old_state_gives_the_old_answer(variant, build, batch):
    """States are values: a later step must not write into an earlier state."""
    model = build(variant)
    source, target = batch(variant)
    first, states = stepped(model, source, target.ids)
    again, _ = model.step(target.ids[:, 2], states[1])
    torch.testing.assert_close(again, first[:, 2], rtol=0, atol=0)


@every_variant
def test_selecting_rows_of_a_state(variant, build, batch):
    model = build(variant)
    source, target = batch(variant)
    logits, states = stepped(model, source, target.ids)
    rows = torch.tensor([2, 0, 0, 1])
    chosen = states[1].select(rows)
    assert chosen.rows == 4
    torch.testing.assert_close(model.alignment(chosen), model.alignment(states[1])[rows], **EXACT)
    next_logits, _ = model.step(target.ids[rows, 2], chosen)
    torch.testing.assert_close(next_logits, logits[rows, 2], **EXACT)


@every_variant
def test_reordering_hypotheses_about_one_source(variant, build, batch):
    """Three hypotheses about one sentence, each continuing another's past."""
    model = build(variant)
    source, target = batch(variant)
    logits, states = stepped(model, source.select(torch.tensor([0, 0, 0])), target.ids)
    together = model.start(source.select(torch.tensor([0]))).reorder(torch.tensor([0, 0, 0]))
    for t in range(3):
        found, together = model.step(target.ids[:, t], together)
        torch.testing.assert_close(found, logits[:, t], **EXACT)
    rows = torch.tensor([1, 1, 2])
    moved = together.reorder(rows)
    torch.testing.assert_close(model.alignment(moved), model.alignment(states[2])[rows], rtol=1e-5, atol=1e-6)
    next_logits, _ = model.step(target.ids[rows, 3], moved)
    torch.testing.assert_close(next_logits, logits[rows, 3], **EXACT)
    assert not torch.allclose(next_logits[0], logits[0, 3])


@every_variant
def test_several_hypotheses_about_each_source(variant, build, batch):
    """A state that branches, shuffles and loses sources equals one in which every row has its source to itself."""
    model = build(variant)
    source, target = batch(variant)
    _, states = stepped(model, source, target.ids[:, :2])
    branched, apart = states[1], states[1]
    ids = target.ids[:, 2:].flatten()
    moves = (
        ([0, 0, 1, 1, 2, 2], None, [0, 0, 1, 1, 2, 2]),  # two about each
        ([1, 0, 1, 3, 3, 2, 5, 5, 4], None, [1, 0, 1, 3, 3, 2, 5, 5, 4]),  # three, out of order
        ([8, 6, 0, 2], [2, 0], [8, 6, 0, 2]),  # the middle sentence leaves, the others change places
    )
    for number, (rows, sources, alone) in enumerate(moves):
        branched = branched.reorder(torch.tensor(rows), None if sources is None else torch.tensor(sources))
        apart = apart.select(torch.tensor(alone))
        assert branched.rows == apart.rows == len(rows)
        tokens = ids[torch.arange(len(rows)) % len(ids)] if number else ids[: len(rows)]
        logits, branched = model.step(tokens, branched)
        expected, apart = model.step(tokens, apart)
        torch.testing.assert_close(logits, expected, **EXACT)
        torch.testing.assert_close(model.alignment(branched), model.alignment(apart), rtol=1e-5, atol=1e-6)
    again = branched.select(torch.tensor([3, 0]))
    expected, _ = model.step(ids[:2], apart.select(torch.tensor([3, 0])))
    torch.testing.assert_close(model.step(ids[:2], again)[0], expected, **EXACT)


@every_variant
def test_cropping_a_state(variant, build, batch):
    model = build(variant)
    source, target = batch(variant)
    logits, states = stepped(model, source, target.ids)
    if not CROPPABLE[VARIANTS[variant].model_type]:
        with pytest.raises(ValueError, match="does not remember"):
            states[3].crop(2)
        return
    for cropped in (states[3].crop(2), states[3].rewound(2)):
        assert cropped.length == 2
        assert not model.alignment(cropped).any(), "what the last step saw is forgotten"
        next_logits, _ = model.step(target.ids[:, 2], cropped)
        torch.testing.assert_close(next_logits, logits[:, 2], **EXACT)


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
def test_the_longest_source_is_read_and_a_longer_one_refused(variant, build):
    model = build(variant)
    limit = model.maximum_source_length
    assert bool(model.length_setting) or (limit is None and model.maximum_target_length is None)
    tokens = torch.tensor([VARIANTS[variant].start_id])
    longest = Tokens.pad([[4] * (40 if limit is None else limit)])
    assert model.step(tokens, model.start(longest))[0].isfinite().all()
    if limit is not None:
        with pytest.raises(InputError, match=f"source has {limit + 1} tokens .* for {limit};.* {model.length_setting}"):
            model.start(Tokens.pad([[4] * (limit + 1)]))
        assert model.length_setting.removeprefix("model.") in vars(type(model.config))


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


@every_variant
def test_a_source_without_tokens_stays_finite_and_to_itself(variant, build, batch):
    model = build(variant)
    source, target = batch(variant)
    empty = Tokens(source.ids, source.valid & torch.tensor([[True], [False], [True]]))
    logits = model(empty, target)
    assert logits.isfinite().all()
    torch.testing.assert_close(logits[[0, 2]], model(source, target)[[0, 2]], **EXACT)
    logits.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


def ties(model: nn.Module) -> set[frozenset[str]]:
    """Names of parameters that are one and the same tensor."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter.data_ptr(), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


@every_variant
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saving_and_loading_is_the_identity(variant, dtype, build, batch, tmp_path):
    model = build(variant, torch.float32)
    config = VARIANTS[variant]
    write_model(tmp_path, config, parameters_of(model), task={}, recipe={}, metrics={})
    loaded = read_model(tmp_path)
    assert loaded.config == config
    assert not loaded.training
    assert ties(loaded) == ties(model)
    source, target = batch(variant)
    assert torch.equal(loaded.to(dtype)(source, target), model.to(dtype)(source, target))


@every_variant
def test_tied_weights_stay_tied(variant, build):
    model = build(variant)
    count = {"all": 3, "target": 2, "inputs": 2, "none": 0}[getattr(VARIANTS[variant], "sharing", "none")]
    for moved in (model, model.float(), model.bfloat16(), copy.deepcopy(model)):
        assert sum(map(len, ties(moved))) == count


@every_variant
def test_the_state_goes_with_the_models_dtype(variant, build, batch):
    """In float64 and bfloat16 alike: stepping still equals teacher forcing, and stays near float64."""
    source, target = batch(variant)
    original = build(variant)
    exact = original(source, target)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 8e-2)):
        model = copy.deepcopy(original).to(dtype)
        with torch.no_grad():
            forced = model(source, target)
            logits, states = stepped(model, source, target.ids)
        assert forced.dtype == logits.dtype == dtype
        assert model.alignment(states[0]).dtype == torch.float32
        scale = real(exact, target).abs().max()
        assert (real(forced, target).double() - real(exact, target)).abs().max() < tolerance * scale
        assert (real(logits, target).double() - real(exact, target)).abs().max() < tolerance * scale


@every_variant
def test_bfloat16_autocast_is_near_float32_and_trains(variant, build, batch):
    source, target = batch(variant)
    model = build(variant, torch.float32)
    exact = real(model(source, target), target)
    exact.square().mean().backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = real(model(source, target), target)
        rough.float().square().mean().backward()
        with torch.no_grad():
            logits, _ = stepped(model, source, target.ids)
    assert ((rough.float() - exact).norm() / exact.norm()) < 0.05
    assert ((real(logits, target).float() - exact).norm() / exact.norm()) < 0.05
    for name, parameter in model.named_parameters():
        if name in wanted:
            assert parameter.dtype == parameter.grad.dtype == torch.float32
    mine = torch.cat([p.grad.flatten() for name, p in model.named_parameters() if name in wanted])
    theirs = torch.cat([gradient.flatten() for gradient in wanted.values()])
    assert torch.cosine_similarity(mine, theirs, dim=0) > 0.98


@every_variant
def test_evaluation_is_deterministic_and_training_is_not(variant, build, batch):
    model = build(variant)
    source, target = batch(variant)
    before = torch.get_rng_state()
    assert torch.equal(model(source, target), model(source, target))
    assert torch.equal(torch.get_rng_state(), before)
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


class Undeclared(Score):
    """The same score, keeping its product scale to itself, so that no fused kernel is used."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        return self.score(query, key, inputs)


def fused(model: nn.Module) -> list[ScoredAttention]:
    return [
        module
        for module in model.modules()
        if isinstance(module, ScoredAttention)
        and (module.score.product_scale(4) is not None or isinstance(module.score, RelativeDot))
    ]


@pytest.mark.parametrize("variant", [v for v, c in VARIANTS.items() if fused(MODELS[c.model_type].model(c))])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_plain_equation_equals_the_fused_kernel(variant, side, build, batch):
    """The whole model, logits and gradients, with `weights @ value` in the place of every fused call."""
    model = build(variant)
    plain = copy.deepcopy(model)
    for attention in fused(plain):
        attention.score = Undeclared(attention.score)
    assert not fused(plain)
    source, target = batch(variant, source=side, target=side)
    outcomes = []
    for either in (model, plain):
        logits = either(source, target)
        real(logits, target).square().sum().backward()
        outcomes.append((real(logits, target), [parameter.grad for parameter in either.parameters()]))
    torch.testing.assert_close(outcomes[0], outcomes[1], rtol=1e-9, atol=1e-11)
    fast, slow = (stepped(either, source, target.ids)[0] for either in (model, plain))
    torch.testing.assert_close(fast, slow, **EXACT)


@every_variant
def test_every_parameter_learns(variant, build, batch):
    """A parameter without a gradient is dead weight; three steps of descent lower the loss."""
    model = build(variant)
    source, target = batch(variant)
    labels = target.ids.roll(-1, dims=1)

    def loss() -> Tensor:
        return nn.functional.cross_entropy(real(model(source, target), target), labels[target.valid])

    first = loss()
    first.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(3):
        optimizer.step()
        optimizer.zero_grad()
        last = loss()
        last.backward()
    assert last < first


@every_variant
def test_a_config_goes_through_json_and_back(variant):
    config = VARIANTS[variant]
    assert config_from_json(type(config), config_to_json(config), "config.json") == config


@every_variant
def test_configs_are_frozen_and_refuse_what_they_do_not_know(variant):
    config = VARIANTS[variant]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.source_vocabulary = 3  # type: ignore[misc]
    values = config_to_json(config)
    with pytest.raises(
        InputError, match=r"recipe\.yaml: unknown key 'source_vocabulry'; did you mean 'source_vocabulary'\?"
    ):
        config_from_json(type(config), values | {"source_vocabulry": 3}, "recipe.yaml")
    del values["source_vocabulary"]
    with pytest.raises(InputError, match="missing source_vocabulary"):
        config_from_json(type(config), values, "recipe.yaml")


@every_variant
@pytest.mark.parametrize("padding", ["left", "right"])
def test_nothing_hangs_on_the_model(variant, padding, build, batch):
    """Two searches over one model do not meet: interleaved they give what each gives alone."""
    model = build(variant)
    source, target = batch(variant, source=padding)
    other = source.select(torch.tensor([1, 2, 0]))
    expected, _ = stepped(model, source, target.ids)
    first, second = model.start(source), model.start(other)
    before = set(vars(model))
    for t in range(5):
        logits, first = model.step(target.ids[:, t], first)
        _, second = model.step(target.ids[:, t], second)
        torch.testing.assert_close(logits, expected[:, t], rtol=0, atol=0)
    assert set(vars(model)) == before
