"""Encoder-decoders with weights of 8 and 4 bits: the model they were made of, but for the rounding, and for use alone."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.generation import CoveragePenalty, FixedLength, RelativeLength, beam_search
from regard.generation.choosing import leading_continuations
from regard.kernels import Kernels, kernels
from regard.layers import Tokens, join
from regard.models import Bahdanau, BahdanauConfig, Transformer, TransformerConfig
from regard.quantization import InferenceTransformer, QuantizedWeights, unsupported_transformer

NONE = Kernels(None, "left out by a test")
SIZES: dict[str, Any] = {
    "source_vocabulary": 45,
    "target_vocabulary": 45,
    "width": 64,
    "heads": 2,
    "feedforward_width": 96,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "maximum_positions": 24,
}
MODELS: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre"},
    "post-norm": {"norm": "post"},
    "biases": {"norm": "pre", "attention_bias": True, "output_bias": "trained", "activation": "gelu"},
    "learned positions, no table shared": {"positions": "learned", "sharing": "none", "target_vocabulary": 39},
    "swish": {"norm": "post", "attention_bias": True, "activation": "swish"},
    "no positions": {"positions": "none", "output_bias": "none", "alignment_layer": 0},
    "odd widths": {"width": 36, "heads": 3, "feedforward_width": 50},
}
WAYS = {"kernels": None, "pytorch": NONE}
SOURCES = [[3, 4, 5, 6, 7, 2], [9, 2], [11, 12, 13, 2]]

built = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")
every_model = pytest.mark.parametrize("name", MODELS)
every_way = pytest.mark.parametrize("way", WAYS)


def made(name, generator):
    model = Transformer(TransformerConfig(**SIZES | MODELS[name])).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2 if parameter.dim() > 1 else 0.1, generator=generator)
        for part in model.modules():
            if isinstance(part, torch.nn.LayerNorm):
                part.weight.add_(1)
    return model


def rounded(model, bits):
    """The model itself with the weights that the numbers stand for."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        head = QuantizedWeights.of(model.output.weight, bits).dequantized()
        for block in (*other.encoder.layers, *other.decoder.layers):
            groups = [
                [block.attention.query, block.attention.key, block.attention.value],
                [block.attention.output],
                [block.feedforward.inner],
                [block.feedforward.outer],
            ]
            if hasattr(block, "cross_attention"):
                cross = block.cross_attention
                groups += [[cross.query], [cross.key, cross.value], [cross.output]]
            for group in groups:
                together = QuantizedWeights.of(torch.cat([layer.weight for layer in group]), bits).dequantized()
                for layer, weight in zip(group, together.split([layer.out_features for layer in group]), strict=True):
                    layer.weight.copy_(weight)
        for embedding in (other.encoder.embedding, other.decoder.embedding):
            for table in embedding.parameters():
                table.copy_(table.bfloat16())
    other.output.weight = torch.nn.Parameter(head)  # the tied table is rounded as numbers where it ends the model
    return other


def steps(model, source, columns):
    """The logits of the given tokens, one step after another, and the alignment of each."""
    state = model.start(source)
    found = []
    for tokens in columns:
        logits, state = model.step(tokens, state)
        found.append((logits, model.alignment(state)))
    return found


@every_model
@every_way
@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_it_is_the_model_with_rounded_weights(name, way, precision, generator):
    """Up to activations in bytes (or bfloat16), and keys and values in bfloat16."""
    model = made(name, generator)
    prepared = InferenceTransformer(model, precision, compiled=WAYS[way])
    source = Tokens.pad(SOURCES)
    columns = torch.randint(3, 39, (7, 3), generator=generator)
    with torch.no_grad():
        wanted = steps(rounded(model, int(precision.removeprefix("int"))), source, columns)
    for (found, alignment), (logits, weights) in zip(steps(prepared, source, columns), wanted, strict=True):
        assert found.dtype == torch.float32
        likely = logits > -1000
        assert ((found > -1000) == likely).all()
        assert (found - logits)[likely].norm() < 0.06 * logits[likely].norm()
        assert (alignment - weights).abs().max() < 0.1


@every_model
@every_way
def test_padding_on_either_side_changes_nothing(name, way, generator):
    prepared = InferenceTransformer(made(name, generator), "int8", compiled=WAYS[way])
    columns = torch.randint(3, 39, (4, 3), generator=generator)
    right, left = (steps(prepared, Tokens.pad(SOURCES, side=side), columns) for side in ("right", "left"))
    for (one, _), (two, _) in zip(right, left, strict=True):
        assert (one - two).norm() < 0.03 * one.norm()  # a byte may be rounded the other way


@built
@pytest.mark.parametrize("name", [name for name in MODELS if name != "odd widths"])
def test_each_hypothesis_of_a_beam_has_its_own_past_to_the_bit(name, generator):
    """What was found among others, in a batch that shrinks, is what the same tokens give when they are read alone."""
    prepared = InferenceTransformer(made(name, generator), "int8")
    sources = [[*torch.randint(3, 39, (1 + number % 6,), generator=generator).tolist(), 2] for number in range(9)]
    found = beam_search(
        prepared, Tokens.pad(sources), beam=5, n_best=5, limit=RelativeLength(extra=6), early_stopping=5
    )
    lengths = {len(hypothesis.token_log_probabilities) for hypotheses in found for hypothesis in hypotheses}
    assert len(lengths) > 1  # some left before others
    for ids, hypotheses in zip(sources, found, strict=True):
        # With the same padding: how many columns a source has is seen by PyTorch's attention in the encoder.
        alone = prepared.start(Tokens.pad([ids, max(sources, key=len)])).select(torch.tensor([0]))
        for hypothesis in hypotheses:
            tokens = [prepared.config.start_id, *hypothesis.tokens]
            state, logs = alone, []
            for token, following in zip(tokens, [*tokens[1:], prepared.config.end_id], strict=True):
                logits, state = prepared.step(torch.tensor([token]), state)
                _, order, own = leading_continuations(logits, torch.zeros(1, 1), logits.shape[1], ())
                logs.append(own[order == following].item())
            assert tuple(logs[: len(hypothesis.token_log_probabilities)]) == hypothesis.token_log_probabilities


@every_way
def test_the_beam_finds_what_it_finds_in_the_rounded_model(way, generator):
    model = made("pre-norm", generator)
    prepared = InferenceTransformer(model, "int8", compiled=WAYS[way])
    source = Tokens.pad(SOURCES)
    settings = {"beam": 3, "limit": FixedLength(8), "coverage_penalty": CoveragePenalty(0.2)}
    with torch.no_grad():
        wanted = beam_search(rounded(model, 8), source, **settings)
    for found, best in zip(beam_search(prepared, source, **settings), wanted, strict=True):
        assert found[0].score == pytest.approx(best[0].score, rel=0.05, abs=0.05)


@built
@every_model
def test_sources_are_read_alone_as_in_a_batch_and_through_hooks(name, generator):
    model = InferenceTransformer(made(name, generator), "bfloat16")
    sources = Tokens.pad(SOURCES)
    read = model.encoded(sources)
    assert (model.reader is None) == (
        name == "odd widths"
    )  # which PyTorch reads, and there the last bits depend on the batch
    if model.reader is not None:
        assert (read[~sources.valid] == 0).all()
        for row, source in enumerate(SOURCES):
            assert torch.equal(model.encoded(Tokens.pad([source]))[0], read[row, : len(source)])
    seen = []
    handle = model.encoder.layers[1].register_forward_hook(lambda module, inputs, output: seen.append(output))
    hooked = model.encoded(sources)
    handle.remove()
    assert len(seen) == 1
    torch.testing.assert_close(hooked[sources.valid], read[sources.valid], rtol=0.03, atol=0.03)
    torch.testing.assert_close(model.encoded(sources), read)


@every_way
def test_states_branch_leave_and_are_cropped(way, generator):
    prepared = InferenceTransformer(made("pre-norm", generator), "int8", compiled=WAYS[way])
    source = Tokens.pad(SOURCES)
    columns = torch.randint(3, 39, (3, 3), generator=generator)
    state = prepared.start(source)
    for tokens in columns:
        _, state = prepared.step(tokens, state)
    tokens = torch.tensor([8, 7, 6])
    wanted = prepared.step(tokens, state)[0]

    chosen = torch.tensor([2, 0, 2, 1])  # one of them twice, each with its source to itself
    branched = state.select(chosen)
    logits, branched = prepared.step(tokens[chosen], branched)
    torch.testing.assert_close(logits, wanted[chosen], rtol=0, atol=1e-5)
    again = prepared.step(torch.tensor([9, 9, 10, 9]), branched)[0]
    assert not torch.allclose(again[0], again[2])  # the two do not write over one another

    fewer = state.reorder(torch.tensor([2, 2, 0, 0]), torch.tensor([2, 0]))
    logits, fewer = prepared.step(tokens[[2, 2, 0, 0]], fewer)
    torch.testing.assert_close(logits, wanted[[2, 2, 0, 0]], rtol=0, atol=1e-5)
    assert torch.equal(prepared.alignment(fewer)[0], prepared.alignment(fewer)[1])

    longer = prepared.step(torch.tensor([30, 31, 32]), state)[1]
    for shorter in (longer.crop(3), longer.rewound(3)):
        torch.testing.assert_close(prepared.step(tokens, shorter)[0], wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(prepared.step(tokens, state)[0], wanted, rtol=0, atol=1e-5)


@every_way
def test_rows_join_and_leave_at_any_length(way, generator):
    prepared = InferenceTransformer(made("pre-norm", generator), "int8", compiled=WAYS[way])
    long = prepared.start(Tokens.pad(SOURCES))
    for token in (5, 6, 7):
        _, long = prepared.step(torch.full((3,), token), long)
    short = prepared.start(Tokens.pad([min(SOURCES, key=len)])).reorder(torch.tensor([0, 0]))
    _, short = prepared.step(torch.tensor([5, 8]), short)
    fewer = long.select(torch.tensor([2, 0]))
    together = join([fewer, short])
    for token in (9, 10):
        found, together = prepared.step(torch.full((4,), token), together)
        first, fewer = prepared.step(torch.full((2,), token), fewer)
        last, short = prepared.step(torch.full((2,), token), short)
        torch.testing.assert_close(found, torch.cat([first, last]), rtol=0, atol=1e-5)


def test_it_is_for_use_not_for_training_or_saving(generator):
    prepared = InferenceTransformer(made("pre-norm", generator), "int8")
    for forbidden in (prepared.train, prepared.state_dict):
        with pytest.raises(InputError, match="rounded to 8 bits, which is for inference, not for training or saving"):
            forbidden()
    with pytest.raises(InputError, match="cannot be moved or converted"):
        prepared.to("meta")
    assert all(not parameter.requires_grad for parameter in prepared.parameters())


def test_what_cannot_be_prepared_is_refused_with_the_reason(generator):
    recurrent = Bahdanau(BahdanauConfig(source_vocabulary=9, target_vocabulary=9))
    with pytest.raises(InputError, match="int8: the model cannot be prepared: a Bahdanau is no Transformer"):
        InferenceTransformer(recurrent, "int8")
    model = made("pre-norm", generator)
    with regard.look(model):
        assert "which look at it" in unsupported_transformer(model)
    assert unsupported_transformer(model) == ""
    relative = Transformer(TransformerConfig(**SIZES | {"positions": "relative"}))
    assert "not added to its tokens" in unsupported_transformer(relative) or "dot product" in unsupported_transformer(
        relative
    )
    other = made("pre-norm", generator)
    other.decoder.layers[1].feedforward.activation = torch.tanh
    assert "feed-forward" in unsupported_transformer(other)


@every_way
def test_a_source_or_target_beyond_its_positions_is_refused(way, generator):
    prepared = InferenceTransformer(made("pre-norm", generator), "int8", compiled=WAYS[way])
    with pytest.raises(InputError, match="source"):
        prepared.start(Tokens.pad([[4] * 25]))
    state = prepared.start(Tokens.pad([[4, 2]]))
    for _ in range(24):
        _, state = prepared.step(torch.tensor([5]), state)
    with pytest.raises(InputError, match="target"):
        prepared.step(torch.tensor([5]), state)


@every_way
@every_model
def test_a_copy_is_the_same_to_the_bit(name, way, generator):
    prepared = InferenceTransformer(made(name, generator), "int8", compiled=WAYS[way])
    source = Tokens.pad(SOURCES)
    wanted = beam_search(prepared, source, beam=2, limit=FixedLength(5))
    state = prepared.step(torch.tensor([1, 1, 1]), prepared.start(source))[1]
    alignment = prepared.alignment(state)
    again = pickle.loads(pickle.dumps(prepared))
    assert (again.kernel is None) == (prepared.kernel is None)
    del prepared
    assert beam_search(again, source, beam=2, limit=FixedLength(5)) == wanted
    assert torch.equal(again.alignment(again.step(torch.tensor([1, 1, 1]), again.start(source))[1]), alignment)


@pytest.mark.slow
def test_another_process_translates_as_this_one(tmp_path):
    pairs = [(word, word[::-1]) for word in ("abc", "bca", "cab", "ab", "bc", "ca")] * 9
    recipe = {
        "seed": 1,
        "model": {"name": "transformer", "width": 32, "heads": 1, "feedforward_width": 32, "maximum_positions": 20},
        "data": {"validation_size": 6},
        "tokenizer": {"kind": "character"},
        "training": {"steps": 20, "batch_tokens": 200, "precision": "float32"},
    }
    translator = regard.train(recipe, output=tmp_path / "run", data=pairs).load().quantised("int8")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(type(translator).translate, translator, "cba").result() == translator.translate("cba")
