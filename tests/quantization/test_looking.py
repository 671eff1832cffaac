"""Looking, ablating and patching at 8 and 4 bits: ordinary blocks do what the kernel does, and whoever looks sees them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch

import regard
from regard.attention import AttentionInputs, ScaledDot, ScoredAttention
from regard.errors import InputError
from regard.inspection.editing import ScaleHeads, SetOutput, ablate, change, patch
from regard.kernels import Kernels, kernels
from regard.layers import Tokens
from regard.models import (
    GPT2,
    Bert,
    BertConfig,
    GPT2Config,
    GPTNeoX,
    GPTNeoXConfig,
    Llama,
    LlamaConfig,
    Transformer,
    TransformerConfig,
)
from regard.quantization import InferenceDecoder, InferenceTransformer, QuantizedLinear, quantized

ODD = {"vocabulary": 53, "width": 96, "heads": 3, "feedforward_width": 160, "layers": 3, "maximum_positions": 21}
every_precision = pytest.mark.parametrize("precision", ["int8", "int4"])
every_way = pytest.mark.parametrize("compiled", [None, Kernels(None, "left out by a test")], ids=["kernels", "pytorch"])
built = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")


def drawn(model, generator, scale=0.3):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=scale if parameter.dim() > 1 else 0.1, generator=generator)
        for part in model.modules():
            if isinstance(part, torch.nn.LayerNorm | torch.nn.RMSNorm):
                part.weight.add_(1)
    return model.eval()


def gpt2(generator):
    return drawn(GPT2(GPT2Config(**ODD)), generator)


def llama(generator):
    return drawn(Llama(LlamaConfig(**ODD, key_heads=1, query_key_norm=True)), generator)


def gpt_neox(generator):
    return drawn(GPTNeoX(GPTNeoXConfig(**ODD)), generator)


DECODERS = {"gpt2": gpt2, "gpt_neox": gpt_neox, "llama": llama}
every_decoder = pytest.mark.parametrize("kind", DECODERS)


def translator(generator):
    sizes = {"width": 64, "heads": 2, "feedforward_width": 96, "encoder_layers": 2, "decoder_layers": 2}
    config = TransformerConfig(source_vocabulary=45, target_vocabulary=45, maximum_positions=24, norm="pre", **sizes)
    return drawn(Transformer(config), generator, 0.2)


def bert(generator):
    return drawn(Bert(BertConfig(vocabulary=31, width=64, heads=2, feedforward_width=96, layers=2)), generator)


def softmax_of(queries, keys):
    """softmax(q . k / sqrt(E)) in float64, plainly, over the keys up to each query's own."""
    scores = queries.double() @ keys.double().transpose(-1, -2) / queries.shape[-1] ** 0.5
    ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + keys.shape[2] - queries.shape[2])
    return scores.masked_fill(ahead, -torch.inf).softmax(dim=-1)


def near(found, wanted, share=0.02):
    return (found - wanted).norm() <= share * wanted.norm()


@every_decoder
@every_precision
@every_way
def test_looking_at_a_decoder_shows_the_weights_of_its_own_queries_and_keys(kind, precision, compiled, generator):
    model = quantized(DECODERS[kind](generator), precision, compiled=compiled)
    tokens = Tokens.pad([[3, 9, 4, 7, 5], [8, 1, 6, 2, 11]])
    unlooked, state = model.read(tokens, model.start(2))
    stepped = model.step(torch.tensor([4, 9]), state)[0]
    with regard.look(model) as seen:
        looked, again = model.read(tokens, model.start(2))
        looked_step = model.step(torch.tensor([4, 9]), again)[0]
    assert near(looked, unlooked)
    assert near(looked_step, stepped)
    assert len(seen.addresses) == 3
    with regard.look(model) as alone:
        model.read(tokens, model.start(2))
    for address in seen.addresses:
        weights = alone.weights(address)
        assert seen.weights(address).shape == (2, 3, 6, 6)
        torch.testing.assert_close(seen.weights(address)[:, :, :5, :5], weights)
        own = softmax_of(alone.queries(address), alone.keys(address))
        torch.testing.assert_close(weights.double(), own, rtol=1e-5, atol=1e-6)


@built
@every_decoder
@every_precision
def test_the_kernel_is_taken_when_nobody_looks_and_only_then(kind, precision, generator, monkeypatch):
    model = quantized(DECODERS[kind](generator), precision)
    state = model.read(Tokens.pad([[3, 9, 4]]), model.start(1))[1]
    taken = []
    original = type(model.kernel).__call__
    monkeypatch.setattr(type(model.kernel), "__call__", lambda *a, **k: (taken.append(1), original(*a, **k))[1])

    def takes() -> bool:
        taken.clear()
        model.step(torch.tensor([5]), state)
        return bool(taken)

    assert takes()
    with regard.look(model, ["layers.1.attention"]):
        assert not takes()
    with regard.look(model, hidden=["layers.2"]):
        assert not takes()
    with change(model, ScaleHeads(address="layers.0.attention", heads=[1])):
        assert not takes()
    assert takes()
    handle = model.layers[0].feedforward.inner.register_forward_hook(lambda *_: None)
    assert not takes()
    handle.remove()
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert not takes()
    handle.remove()
    assert takes()
    kept, model.layers[2].attention.attention = model.layers[2].attention.attention, ScoredAttention(ScaledDot(0.25))
    assert not takes()
    model.layers[2].attention.attention = kept
    assert takes()
    model.layers[0].attention_residual.before.weight.data.mul_(2)  # in place: the kernel reads the same numbers
    step = model.step(torch.tensor([5]), state)[0]
    with regard.look(model):
        assert near(model.step(torch.tensor([5]), state)[0], step)


@every_precision
@every_way
def test_silencing_a_head_of_a_decoder_changes_the_answer_and_patching_brings_it_back(precision, compiled, generator):
    model = quantized(gpt2(generator), precision, compiled=compiled)
    one, two = Tokens.pad([[3, 9, 4, 7]]), Tokens.pad([[8, 1, 6, 2]])
    whole = model(one)
    with change(model, ScaleHeads(address="layers.1.attention", heads=[2])):
        silenced = model(one)
    assert not near(silenced, whole)
    assert torch.equal(model(one), whole)

    def score(logits):
        return logits[0, -1, 5].item()

    found = ablate(model, lambda: score(model(one)))
    assert len(found.rows) == 9
    assert any(row.effect for row in found.rows)
    state = model.read(one, model.start(1))[1]
    stepping = ablate(model, lambda: model.step(torch.tensor([6]), state)[0][0, 5].item(), by="layer")
    assert all(row.effect for row in stepping.rows)
    hidden = patch(model, lambda: model(one), lambda: model(two), score, hidden=["layers.2"])
    assert hidden.rows[0].effect == pytest.approx(1.0, abs=1e-4)
    heads = patch(model, lambda: model(one), lambda: model(two), score, by="layer")
    assert len({row.effect for row in heads.rows}) == 3


@every_precision
@every_way
def test_looking_at_a_translator_shows_encoder_decoder_and_what_lies_across(precision, compiled, generator):
    model = quantized(translator(generator), precision, compiled=compiled)
    source, columns = Tokens.pad([[3, 4, 5, 6, 2], [9, 8, 2]]), torch.tensor([[1, 1], [7, 8], [9, 6]])

    def logits():
        state, found = model.start(source), []
        for tokens in columns:
            step, state = model.step(tokens, state)
            found.append(step[:, 1:])  # the first is padding's, which is ruled out
        return torch.stack(found), model.alignment(state)

    wanted, aligned = logits()
    with regard.look(model) as seen:
        found, alignment = logits()
    assert near(found, wanted, 0.04)
    assert (alignment - aligned).abs().max() < 0.03
    across = "decoder.layers.1.cross_attention"
    assert {"encoder.layers.0.attention", "decoder.layers.0.attention", across} <= set(seen.addresses)
    weights = seen.weights(across)
    torch.testing.assert_close(weights.mean(dim=1)[:, -1], alignment, rtol=1e-4, atol=1e-5)
    with regard.look(model) as seen:
        forced = model(source, Tokens.pad(columns.t().tolist()))
    assert near(forced.transpose(0, 1)[..., 1:], wanted, 0.04)
    torch.testing.assert_close(seen.weights(across), weights, rtol=0, atol=0.03)
    visible, weights = source.valid[:, None, None], seen.weights(across)
    scores = seen.queries(across).double() @ seen.keys(across).double().transpose(-1, -2) / 32**0.5
    own = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    torch.testing.assert_close(weights.double(), own, rtol=1e-5, atol=1e-6)
    with change(model, ScaleHeads(address=across, heads=[0])):
        assert not near(logits()[0], wanted, 0.04)


@every_precision
@every_way
def test_an_encoder_is_looked_at_and_changed_as_any_other(precision, compiled, generator):
    plain = bert(generator)
    model = quantized(plain, precision, compiled=compiled)
    assert type(model) is Bert
    assert all(isinstance(layer.attention.key, QuantizedLinear) for layer in model.layers)
    tokens = Tokens.pad([[3, 4, 5, 6], [7, 8]])
    wanted = model(tokens).hidden
    assert near(wanted[tokens.valid], plain(tokens).hidden[tokens.valid], 0.03 if precision == "int8" else 0.3)
    with regard.look(model) as seen:
        assert torch.equal(model(tokens).hidden, wanted)
    address = "layers.1.attention"
    inputs = AttentionInputs(query=seen.queries(address), key=seen.keys(address))
    torch.testing.assert_close(
        seen.weights(address)[0], ScoredAttention(ScaledDot()).weights(inputs)[0], rtol=1e-5, atol=1e-6
    )
    with change(model, ScaleHeads(address=address, heads=[1])):
        assert not near(model(tokens).hidden, wanted)
    for forbidden in (model.train, model.state_dict):
        with pytest.raises(InputError, match="which is for inference, not for training or saving"):
            forbidden()
    with pytest.raises(InputError, match="cannot be moved or converted"):
        model.to("meta")
    with pytest.raises(InputError, match="bfloat16: the model cannot be prepared: an encoder is quantized to int8 or"):
        quantized(plain, "bfloat16")


@built
@pytest.mark.parametrize(("precision", "share"), [("float32", 1e-5), ("bfloat16", 0.02)])
@every_decoder
def test_plain_weights_take_the_fast_path_too(kind, precision, share, generator):
    """Decoders and translators, of any number of rows; a row hears of no other, and whoever looks sees the same."""
    plain = DECODERS[kind](generator)
    decoder, tokens = InferenceDecoder(plain, precision), Tokens.pad([[3, 9, 4, 7, 5]] * 7)
    ids = torch.arange(4, 11)
    assert decoder.kernel is not None
    state = decoder.read(tokens, decoder.start(7))[1]
    found = decoder.step(ids, state)[0]
    with torch.no_grad():
        assert near(found, plain.step(ids, plain.read(tokens, plain.start(7))[1])[0], share)
    for rows in ([2], [5, 0], [6, 1, 3]):
        hidden = decoder.hidden(Tokens.pad([[int(ids[row])] for row in rows]), state.select(torch.tensor(rows)))[0]
        whole = decoder.hidden(Tokens.pad(ids[:, None].tolist()), state)[0]
        assert torch.equal(hidden, whole[rows])
    with regard.look(decoder):
        assert near(decoder.step(ids, state)[0], found, share)

    plain, source = translator(generator), Tokens.pad([[3, 4, 5, 6, 2], [9, 8, 2]])
    model = InferenceTransformer(plain, precision)
    assert model.kernel is not None
    state, wanted = model.start(source), plain.start(source)
    with torch.no_grad():
        for tokens in ([1, 1], [7, 8]):
            logits, state = model.step(torch.tensor(tokens), state)
            expected, wanted = plain.step(torch.tensor(tokens), wanted)
            assert near(logits[:, 1:], expected[:, 1:], 2 * share)
    with pytest.raises(InputError, match=f"laid out in {precision}, which is for inference"):
        model.train()


@every_precision
def test_the_gradient_of_a_quantized_layer_is_that_of_its_weights(precision, generator):
    layer = QuantizedLinear(torch.randn(33, 40, generator=generator), None, 8 if precision == "int8" else 4)
    x = torch.randn(2, 3, 40, generator=generator, requires_grad=True)
    out = torch.randn(2, 3, 33, generator=generator)
    (layer(x) * out).sum().backward()
    torch.testing.assert_close(x.grad, out @ layer.weight)


def test_importing_the_package_imports_no_kernel():
    code = (
        "import sys, regard.quantization; "
        "print([name for name in sys.modules if name.startswith(('torch', 'regard.quantization.'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["PreparedDecoder", "ForUse", "QuantisedWeights", "encoder_obstacle"])
def test_an_old_name_works_with_a_warning(name):
    import regard.quantization as package

    with pytest.warns(DeprecationWarning, match=f"{name} is called {package.RENAMED[name]}"):
        old = getattr(package, name)
    assert old is getattr(package, package.RENAMED[name])
    with pytest.raises(AttributeError):
        _ = package.Nothing


def test_the_old_name_of_the_package_warns_and_gives_the_same_things():
    old = importlib.import_module("regard.prepared")
    with pytest.warns(DeprecationWarning, match="regard.prepared is now regard.quantization"):
        assert old.QuantizedLinear is QuantizedLinear


@built
@pytest.mark.parametrize("precision", ["int8", "float32"])
@pytest.mark.parametrize(
    "place", ["norm", "layers.1.attention_residual.before", "layers.2.feedforward.inner", "output"]
)
def test_a_parameter_whose_data_are_others_is_read_at_the_next_step(place, precision, generator):
    """The kernel knows where the old ones were; the ordinary blocks read the new ones."""
    model = quantized(llama(generator), precision)
    tokens, ids = Tokens.pad([[3, 9, 4, 7]] * 3), torch.tensor([5, 1, 8])
    state = model.read(tokens, model.start(3))[1]
    before = model.step(ids, state)[0]
    part = model.get_submodule(place)
    name = "values" if isinstance(part, QuantizedLinear) else "weight"
    held, kept = getattr(part, name), getattr(part, name).data
    held.data = kept.flip(0).contiguous()
    found = model.step(ids, state)[0]
    with regard.look(model):
        wanted = model.step(ids, state)[0]
    assert torch.equal(found, wanted)
    assert not near(found, before)
    held.data = kept
    assert torch.equal(model.step(ids, state)[0], before)
    if place == "layers.2.feedforward.inner" and precision == "float32":  # in the same place, laid out the other way
        held.data = torch.as_strided(kept, kept.shape, (1, kept.shape[0]))
        found = model.step(ids, state)[0]
        with regard.look(model):
            assert torch.equal(found, model.step(ids, state)[0])


@built
def test_weights_laid_out_the_other_way_are_read_as_they_are(generator):
    """As a checkpoint gives them whose maps are (inputs, outputs)."""
    plain = llama(generator)
    for layer in plain.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.weight.data = layer.weight.data.t().contiguous().t()
    model, tokens, ids = quantized(plain, "float32"), Tokens.pad([[3, 9, 4, 7]] * 2), torch.tensor([5, 1])
    assert model.kernel is not None
    found = model.step(ids, model.read(tokens, model.start(2))[1])[0]
    with torch.no_grad():
        assert near(found, plain.step(ids, plain.read(tokens, plain.start(2))[1])[0], 1e-5)


@built
@every_decoder
@pytest.mark.parametrize("precision", ["int8", "int4", "bfloat16", "float32"])
@pytest.mark.parametrize("place", ["norm", "output"])
def test_the_last_norm_and_the_output_map_are_ablated_as_in_the_ordinary_blocks(place, precision, kind, generator):
    """Both stand in the kernel's one call while nobody changes them."""
    model = quantized(DECODERS[kind](generator), precision)
    tokens, ids = Tokens.pad([[3, 9, 4, 7]] * 3), torch.tensor([5, 1, 8])
    state = model.read(tokens, model.start(3))[1]
    with torch.no_grad():
        step = model.step(ids, state)[0]
        hidden = model.hidden(Tokens.pad(ids[:, None].tolist()), state)[0][:, 0]
        wanted = model.logits(hidden.roll(1, 0)) if place == "norm" else step.roll(1, 0)
        with change(model, SetOutput(address=place, to=lambda present: present.roll(1, 0))):
            found = model.step(ids, state)[0]
        assert near(found, wanted, 0.02 if precision == "bfloat16" else 1e-5)
        assert not near(found, step)
        with change(model, SetOutput(address=place, to=lambda present: 0 * present)):
            assert not model.step(ids, state)[0].any()
        assert torch.equal(model.step(ids, state)[0], step)


@built
@every_decoder
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_settings_that_are_changed_count_at_the_next_step(precision, kind, generator):
    """An epsilon, an activation, the power of the scale: the kernel was told them once."""
    model = quantized(DECODERS[kind](generator), precision)
    tokens, ids = Tokens.pad([[3, 9, 4, 7]] * 3), torch.tensor([5, 1, 8])
    state = model.read(tokens, model.start(3))[1]
    before = model.step(ids, state)[0]
    for part, name, other in (
        (model.norm, "eps", 9.0),
        (model.layers[1].attention_residual.before, "eps", 9.0),
        (model.layers[2].feedforward, "activation", torch.relu),
        (model.layers[0].attention.attention.score, "power", 0.1),
    ):
        kept = getattr(part, name)
        setattr(part, name, other)
        found = model.step(ids, state)[0]
        with regard.look(model):
            assert torch.equal(found, model.step(ids, state)[0])
        assert not near(found, before, 1e-4)
        setattr(part, name, kept)
        assert torch.equal(model.step(ids, state)[0], before)
