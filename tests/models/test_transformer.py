from __future__ import annotations

import pytest
import torch

from regard.attention import ScaledDot, sinusoids
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import Transformer, TransformerConfig


def parameters(config: TransformerConfig) -> int:
    with torch.device("meta"):
        model = Transformer(config)
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_published_sizes():
    """Table 3 of the paper says 65 and 213 million."""
    assert parameters(TransformerConfig.base()) == 63_045_632
    assert parameters(TransformerConfig.big()) == 214_171_648


def test_the_published_sizes_by_formula():
    """V d + per encoder block (4 d^2 + FFN + 2 norms) + per decoder block (8 d^2 + FFN + 3 norms)."""
    for config in (TransformerConfig.base(8000), TransformerConfig.big(500)):
        d, f = config.width, config.feedforward_width
        feedforward, norm = 2 * d * f + d + f, 2 * d
        encoder, decoder = 4 * d * d + feedforward + 2 * norm, 8 * d * d + feedforward + 3 * norm
        assert parameters(config) == config.source_vocabulary * d + 6 * (encoder + decoder)


def test_big_is_the_papers_big():
    big = TransformerConfig.big()
    assert (big.width, big.heads, big.feedforward_width, big.dropout) == (1024, 16, 4096, 0.3)
    assert (big.encoder_layers, big.decoder_layers, big.norm, big.attention_bias) == (6, 6, "post", False)


@pytest.mark.parametrize(("sharing", "tables"), [("all", 1), ("target", 2), ("none", 3)])
def test_sharing_ties_the_same_tensor(sharing, tables, tiny_transformer, seeded):
    model = Transformer(tiny_transformer(sharing=sharing))
    source, target = model.encoder.embedding.tokens.weight, model.decoder.embedding.tokens.weight
    assert len({id(table) for table in (source, target, model.output.weight)}) == tables
    assert (model.output.weight is target) == (sharing != "none")
    assert (source is target) == (sharing == "all")


def test_post_and_pre_norm_are_different_modules(tiny_transformer, seeded):
    """The names of their norms differ, and only pre-norm has one at the end of each stack."""
    names = {norm: set(Transformer(tiny_transformer(norm=norm)).state_dict()) for norm in ("post", "pre")}
    assert {name for name in names["pre"] if name.startswith(("encoder.norm", "decoder.norm"))} == {
        f"{stack}.norm.{kind}" for stack in ("encoder", "decoder") for kind in ("weight", "bias")
    }
    assert not any(name.startswith(("encoder.norm", "decoder.norm")) for name in names["post"])
    assert not {name for name in names["pre"] & names["post"] if "residual" in name}


def test_without_positions_the_encoder_reads_a_bag(tiny_transformer, seeded, sentences, randomize):
    """Shuffled sources give shuffled states; with sinusoids they do not."""
    source = sentences([6], 11, seed=1)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = Tokens(source.ids[:, order], source.valid)
    apart = {}
    for positions in ("none", "sinusoidal"):
        model = randomize(Transformer(tiny_transformer(positions=positions))).double().eval()
        apart[positions] = (model.encoder(shuffled) - model.encoder(source)[:, order]).abs().max().item()
    assert apart["none"] < 1e-12
    assert apart["sinusoidal"] > 1e-3


def test_every_attention_has_the_configured_scale(tiny_transformer, seeded):
    for power in (0.5, 0.0, 1.0):
        model = Transformer(tiny_transformer(scale_power=power))
        scales = [module.product_scale(4) for module in model.modules() if isinstance(module, ScaledDot)]
        assert scales == [4**-power] * 6  # two encoder blocks, two decoder blocks with two each


def test_each_post_norm_layer_ends_in_a_norm(tiny_transformer, seeded, sentences):
    """With gain 1 and bias 0 every position has mean 0 and variance 1; pre-norm ends so only after its final norm."""
    model = Transformer(tiny_transformer()).eval()
    encoded = model.encoder(sentences([5, 5], 11))
    torch.testing.assert_close(encoded.mean(dim=-1), torch.zeros(2, 5), rtol=0, atol=1e-5)
    torch.testing.assert_close(encoded.var(dim=-1, unbiased=False), torch.ones(2, 5), rtol=1e-3, atol=0)


def test_the_stacks_input_is_scaled_embeddings_and_positions(tiny_transformer, seeded, sentences):
    model = Transformer(tiny_transformer()).eval()
    seen = []
    model.encoder.layers[0].register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    source = sentences([5, 3], 11, side="left")
    model.encoder(source)
    table = model.encoder.embedding.tokens.weight
    for row, length in enumerate((5, 3)):
        ids = source.ids[row][source.valid[row]]
        expected = 12**0.5 * table[ids] + sinusoids(torch.arange(length), 12)
        torch.testing.assert_close(seen[0][row][source.valid[row]], expected)


def test_positions_are_the_only_source_of_order(tiny_transformer, seeded, sentences, generator):
    """With its positions silenced the encoder is blind to order; with them it is not."""
    model = Transformer(tiny_transformer(positions="learned")).double().eval()
    source = sentences([6], 11)
    order = torch.randperm(6, generator=generator)
    shuffled = Tokens(source.ids[:, order], source.valid)
    assert not torch.allclose(model.encoder(shuffled), model.encoder(source)[:, order])
    torch.nn.init.zeros_(model.encoder.embedding.positions.weight)
    torch.testing.assert_close(model.encoder(shuffled), model.encoder(source)[:, order], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_sequences_longer_than_the_positions_are_refused(positions, tiny_transformer, seeded, sentences):
    model = Transformer(tiny_transformer(maximum_positions=4, positions=positions)).eval()
    assert model.maximum_target_length == 4
    fits, long = sentences([4], 11), sentences([5], 11)
    model(fits, fits)
    for call in (lambda: model(long, fits), lambda: model.start(long)):
        with pytest.raises(InputError, match="the source has 5 tokens and the model has positions for 4"):
            call()
    with pytest.raises(InputError, match="the target has 5 tokens"):
        model(fits, long)
    state = model.start(fits)
    for token in fits.ids.unbind(dim=1):
        _, state = model.step(token, state)
    with pytest.raises(InputError, match="the target has 5 tokens"):
        model.step(fits.ids[:, 0], state)


def test_source_keys_and_values_are_projected_once(tiny_transformer, seeded, sentences):
    model = Transformer(tiny_transformer()).eval()
    projected = []
    for layer in model.decoder.layers:
        layer.cross_attention.key.register_forward_hook(lambda *_: projected.append(1))
    state = model.start(sentences([5], 11))
    for _ in range(3):
        _, state = model.step(torch.tensor([3]), state)
    assert len(projected) == 2


def test_the_alignment_layer_can_be_chosen(tiny_transformer, seeded, sentences):
    alignments = []
    for layer in (0, 1, -1):
        torch.manual_seed(1)
        model = Transformer(tiny_transformer(alignment_layer=layer)).eval()
        _, state = model.step(torch.tensor([3]), model.start(sentences([5], 11)))
        alignments.append(model.alignment(state))
    assert torch.equal(alignments[1], alignments[2])
    assert not torch.allclose(alignments[0], alignments[1])
