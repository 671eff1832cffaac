"""The Transformer's stacks against `torch.nn.Transformer` with the very same weights, and the name table between the two."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention import positions_of
from regard.checkpoints import parameters_of, torch_transformer
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import Transformer, TransformerConfig

V, D, H, F, LAYERS = 13, 12, 3, 10, (2, 3)
EPSILON = 1e-3  # large enough that a wrong place or value would show
EXACT = {"rtol": 1e-9, "atol": 1e-11}
SOURCES, TARGETS = [6, 3, 5], [4, 5, 2]


@pytest.fixture(params=["post", "pre"])
def norm(request):
    return request.param


@pytest.fixture
def ours(norm, seeded, randomize):
    """Every parameter is drawn anew: biases at zero and norms at one would hide swapped names."""
    config = TransformerConfig(
        source_vocabulary=V,
        target_vocabulary=V,
        width=D,
        heads=H,
        feedforward_width=F,
        encoder_layers=LAYERS[0],
        decoder_layers=LAYERS[1],
        maximum_positions=16,
        norm=norm,
        attention_bias=True,
        norm_epsilon=EPSILON,
        sharing="none",
        output_bias="none",
    )
    return randomize(Transformer(config)).double().eval()


def stacks(model: Transformer) -> dict[str, Tensor]:
    """The parameters `torch.nn.Transformer` has too: all but embeddings and output."""
    return {
        name: tensor
        for name, tensor in parameters_of(model).items()
        if not name.startswith(("encoder.embedding", "decoder.embedding", "output"))
    }


@pytest.fixture
def theirs(ours, norm):
    """Without a final norm when post-norm: PyTorch's own class adds one that the paper does not have."""
    options = {
        "dim_feedforward": F,
        "dropout": 0.0,
        "layer_norm_eps": EPSILON,
        "batch_first": True,
        "norm_first": norm == "pre",
    }
    final = [nn.LayerNorm(D, eps=EPSILON) if norm == "pre" else None for _ in range(2)]
    model = nn.Transformer(
        D,
        H,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(D, H, **options), LAYERS[0], norm=final[0], enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(D, H, **options), LAYERS[1], norm=final[1]),
        batch_first=True,
    )
    model.double().eval().load_state_dict(torch_transformer(norm).to_theirs(stacks(ours)), strict=True)
    return model


def embedded(model: Transformer, source: Tokens, target: Tokens) -> tuple[Tensor, Tensor]:
    return (
        model.encoder.embedding(source.ids, positions_of(source.valid)).detach(),
        model.decoder.embedding(target.ids, positions_of(target.valid)).detach(),
    )


def test_stacks_agree_in_outputs_and_in_every_gradient(ours, theirs, norm, sentences, generator):
    source, target = sentences(SOURCES, V, seed=1), sentences(TARGETS, V, seed=2)
    x, y = embedded(ours, source, target)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    blocked = {"source": ~source.valid, "target": torch.zeros_like(causal).masked_fill(causal != 0, 1).bool()}
    memory = theirs.encoder(x, src_key_padding_mask=blocked["source"])
    wanted = theirs.decoder(
        y,
        memory,
        tgt_mask=blocked["target"],
        tgt_key_padding_mask=~target.valid,
        memory_key_padding_mask=blocked["source"],
    )
    our_memory = ours.encoder(source)
    output = ours.decoder(target, our_memory, source.valid)
    torch.testing.assert_close(our_memory[source.valid], memory[source.valid], **EXACT)
    torch.testing.assert_close(output[target.valid], wanted[target.valid], **EXACT)

    upstream = torch.randn(int(target.valid.sum()), D, generator=generator, dtype=torch.float64)
    output[target.valid].backward(upstream)
    wanted[target.valid].backward(upstream)
    gradients = torch_transformer(norm).to_ours({name: p.grad for name, p in theirs.named_parameters()})
    mine = {name: ours.get_parameter(name).grad for name in stacks(ours)}
    assert mine.keys() == gradients.keys()
    for name, gradient in gradients.items():
        # The key's bias adds the same to every score of a query, so its gradient is zero but for rounding.
        torch.testing.assert_close(
            mine[name], gradient, rtol=1e-8, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert all(gradient.any() for name, gradient in mine.items() if not name.endswith("key.bias"))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_agrees_with_each_sentence_alone_there(ours, theirs, side, sentences):
    """On either side; theirs needs no padding when it reads one sentence at a time."""
    source, target = sentences(SOURCES, V, side=side, seed=1), sentences(TARGETS, V, side=side, seed=2)
    output = ours.decoder(target, ours.encoder(source), source.valid)
    for row in range(3):
        alone = [Tokens.pad([part.ids[row][part.valid[row]].tolist()]) for part in (source, target)]
        x, y = embedded(ours, *alone)
        causal = nn.Transformer.generate_square_subsequent_mask(y.shape[1], dtype=torch.float64)
        torch.testing.assert_close(output[row][target.valid[row]], theirs(x, y, tgt_mask=causal)[0], **EXACT)


def test_stepping_agrees_too(ours, theirs, sentences):
    source, target = sentences([6, 6], V, seed=1), sentences([5, 5], V, seed=2)
    x, y = embedded(ours, source, target)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    wanted = theirs(x, y, tgt_mask=causal) @ ours.output.weight.T
    state = ours.start(source)
    for t in range(5):
        logits, state = ours.step(target.ids[:, t], state)
        torch.testing.assert_close(logits, wanted[:, t], **EXACT)


def test_names_run_both_ways_exactly(ours, theirs, norm):
    table = torch_transformer(norm)
    own = stacks(ours)
    abroad = table.to_theirs(own)
    assert abroad.keys() == theirs.state_dict().keys()
    assert {name: tensor.shape for name, tensor in abroad.items()} == {
        name: tensor.shape for name, tensor in theirs.state_dict().items()
    }
    home = table.to_ours(abroad)
    assert home.keys() == own.keys()
    assert all(torch.equal(home[name], own[name]) for name in own)
    again = table.to_theirs(table.to_ours(theirs.state_dict()))
    assert all(torch.equal(again[name], tensor) for name, tensor in theirs.state_dict().items())


def test_the_other_placement_of_norms_is_another_table(ours, norm):
    """A post-norm file does not load as pre-norm: the names differ, and nothing is dropped in silence."""
    other = torch_transformer("pre" if norm == "post" else "post")
    with pytest.raises(InputError, match="no name in the other layout") as caught:
        other.to_theirs(stacks(ours))
    assert "encoder.layers.0.attention_residual" in str(caught.value)


def test_a_tensor_the_table_does_not_know_is_named(theirs, norm):
    extra = theirs.state_dict() | {"decoder.layers.0.rotary.freqs": torch.zeros(3)}
    with pytest.raises(InputError, match=r"decoder\.layers\.0\.rotary\.freqs has no name in our layout"):
        torch_transformer(norm).to_ours(extra)


def test_half_of_a_stacked_projection_is_refused(ours, norm):
    """Query, key and value make one tensor there; without the value there is nothing to write."""
    own = stacks(ours)
    del own["encoder.layers.1.attention.value.weight"]
    with pytest.raises(InputError, match=r"encoder\.layers\.1\.attention\.key\.weight"):
        torch_transformer(norm).to_theirs(own)
