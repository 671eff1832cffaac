"""Decoders with weights of 8 and 4 bits: the model they were made of, but for the rounding, and no more than a model for use."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle

import pytest
import torch
from torch.multiprocessing.queue import ForkingPickler

import regard
from regard.attention import LearnedPositions, RotaryScaling
from regard.errors import InputError
from regard.generation import Continuation, FixedLength, generate
from regard.kernels import Kernels, kernels
from regard.layers import Tokens, join
from regard.models import (
    GPT,
    GPT2,
    GPT3,
    Decoder,
    DecoderConfig,
    GPT2Config,
    GPT3Config,
    GPTConfig,
    GPTNeoX,
    GPTNeoXConfig,
    Llama,
    LlamaConfig,
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
)
from regard.quantization import (
    InferenceDecoder,
    QuantizedLinear,
    QuantizedWeights,
    inference,
    linear,
    unsupported_decoder,
)

NONE = Kernels(None, "left out by a test")
SIZES = {"vocabulary": 45, "width": 64, "heads": 2, "feedforward_width": 96, "layers": 3, "maximum_positions": 24}

MODELS = {
    "gpt": lambda **given: GPT(GPTConfig(**SIZES | given)),
    "gpt2": lambda **given: GPT2(GPT2Config(**SIZES | given)),
    "gpt2 relu": lambda **given: GPT2(GPT2Config(**SIZES | {"activation": "relu"} | given)),
    "gpt2 gelu": lambda **given: GPT2(GPT2Config(**SIZES | {"activation": "gelu"} | given)),
    "gpt3": lambda **given: GPT3(GPT3Config(**SIZES | {"band": 5} | given)),
    "odd widths": lambda **given: GPT2(
        GPT2Config(**SIZES | {"width": 36, "heads": 3, "feedforward_width": 50} | given)
    ),
    "gpt_neox": lambda **given: GPTNeoX(GPTNeoXConfig(**SIZES | given)),
    "gpt_neox one after another": lambda **given: GPTNeoX(
        GPTNeoXConfig(**SIZES | {"parallel": False, "attention_bias": False} | given)
    ),
    "llama": lambda **given: Llama(LlamaConfig(**SIZES | {"heads": 4, "key_heads": 2, "head_width": 32} | given)),
    "llama as mistral": lambda **given: Llama(
        LlamaConfig(**SIZES | {"sliding_window": 5, "tied_output": False} | given)
    ),
    "llama as qwen2": lambda **given: Llama(LlamaConfig(**SIZES | {"attention_bias": True, "window_from": 1} | given)),
    "llama as qwen3": lambda **given: Llama(
        LlamaConfig(**SIZES | {"query_key_norm": True, "head_width": 64, "key_heads": 1} | given)
    ),
    "llama of every bias": lambda **given: Llama(
        LlamaConfig(
            **SIZES | {"attention_bias": True, "attention_output_bias": True, "feedforward_bias": True} | given,
            activation="gelu",
            rotary_scaling=RotaryScaling(kind="yarn", factor=2.0, trained_positions=12),
        )
    ),
    "llama of odd widths": lambda **given: Llama(
        LlamaConfig(**SIZES | {"width": 36, "heads": 3, "feedforward_width": 50} | given)
    ),
    "decoder between the two": lambda **given: Decoder(
        DecoderConfig(**SIZES | {"norm": "rms", "norm_placement": "post", "positions": "rotary"} | given)
    ),
    "decoder of sinusoids": lambda **given: Decoder(
        DecoderConfig(**SIZES | {"gated": True, "positions": "sinusoidal", "bias": False, "key_heads": 1} | given)
    ),
}
WAYS = {"kernels": None, "pytorch": NONE}

built = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")
every_model = pytest.mark.parametrize("name", MODELS)
every_way = pytest.mark.parametrize("way", WAYS)
every_precision = pytest.mark.parametrize("precision", ["int8", "int4"])


def made(name, generator, **given):
    model = MODELS[name](**given).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3 if parameter.dim() > 1 else 0.1, generator=generator)
        for part in model.modules():
            if isinstance(part, torch.nn.LayerNorm | torch.nn.RMSNorm):
                part.weight.add_(1)
    return model


def rounded(model, bits):
    """The model itself with the weights that the numbers stand for."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        # The tied table is rounded as numbers where it ends the model, and to bfloat16 where it begins it.
        other.head = QuantizedWeights.of(model.output_map()[0], bits).dequantized()
        for block in other.layers:
            attention = block.attention
            for part in (attention, block.feedforward):
                for layer in part.modules():
                    if isinstance(layer, torch.nn.Linear):
                        layer.weight.copy_(QuantizedWeights.of(layer.weight, bits).dequantized())
        other.embedding.tokens.weight.copy_(model.embedding.tokens.weight.bfloat16())
        if isinstance(model.embedding.positions, LearnedPositions):
            other.embedding.positions.weight.copy_(model.embedding.positions.weight.bfloat16())
    other.logits = lambda hidden: hidden @ other.head.t()
    return other


def in_bytes(x):
    """Activations as the kernel rounds them: to bytes, 32 that stand together with one scale."""
    groups = torch.nn.functional.pad(x, (0, -x.shape[-1] % linear.GROUP)).unflatten(-1, (-1, linear.GROUP))
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return ((groups / scale).round() * scale).flatten(-2)[..., : x.shape[-1]]


def rounding_error(other, tokens):
    """How far rounded activations alone take a model whose weights are rounded, as a share of its logits."""
    exact = other(tokens)[tokens.valid]
    for layer in other.layers.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_pre_hook(lambda _, given: (in_bytes(given[0]),))
    return (other(tokens)[tokens.valid] - exact).norm() / exact.norm()


def texts(generator, rows=3, length=14, vocabulary=45):
    ids = torch.randint(1, vocabulary, (rows, length), generator=generator)
    valid = torch.ones_like(ids, dtype=torch.bool)
    valid[1, :4] = valid[2, :9] = False  # prompts of different lengths stand on the right
    return Tokens(ids, valid)


@every_model
@every_way
@every_precision
def test_it_is_the_model_with_rounded_weights(name, way, precision, generator):
    """Up to activations in bytes (or bfloat16) and a cache in bfloat16."""
    model = made(name, generator)
    tokens = texts(generator)
    prepared = InferenceDecoder(model, precision, compiled=WAYS[way])
    with torch.no_grad():
        other = rounded(model, int(precision.removeprefix("int")))
        wanted = other(tokens)[tokens.valid]
        allowed = rounding_error(other, tokens)
    found = prepared(tokens)[tokens.valid]
    assert found.dtype == torch.float32
    assert allowed < 0.1  # else the comparison says nothing
    assert (found - wanted).norm() < max(0.02, 1.6 * allowed) * wanted.norm()


@every_model
@every_way
def test_step_by_step_is_the_whole_text_at_once(name, way, generator):
    prepared = InferenceDecoder(made(name, generator), "int8", compiled=WAYS[way])
    tokens = texts(generator)
    whole = prepared(tokens)
    state = prepared.start(3)
    logits, state = prepared.read(Tokens(tokens.ids[:, :10], tokens.valid[:, :10]), state)
    found = [logits]
    for place in range(10, 14):
        logits, state = prepared.step(tokens.ids[:, place], state)
        found.append(logits[:, None])
    apart = torch.cat(found, dim=1)[tokens.valid] - whole[tokens.valid]
    assert apart.norm() < 0.02 * whole[tokens.valid].norm()  # a byte may be rounded the other way


@built
@every_model
def test_a_token_is_the_same_to_the_bit_whoever_stands_beside_it(name, generator):
    prepared = InferenceDecoder(made(name, generator), "int8")
    tokens = texts(generator, rows=9)
    state = prepared.read(tokens, prepared.start(9))[1]
    chosen = torch.tensor([4, 0, 2])
    alone = state.select(chosen)
    for place in range(4):
        ids = tokens.ids[:, place]
        together, state = prepared.step(ids, state)
        found, alone = prepared.step(ids[chosen], alone)
        assert torch.equal(found, together[chosen])


@built
@pytest.mark.parametrize("vocabulary", [45, 64, 33, 7])
@pytest.mark.parametrize("precision", ["int8", "int4", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "llama as mistral", "decoder between the two"])
def test_logits_of_the_kernels_one_call_are_those_of_the_norm_and_the_map(name, precision, vocabulary, generator):
    prepared = InferenceDecoder(made(name, generator, vocabulary=vocabulary), precision)
    assert prepared.kernel is not None
    assert prepared.kernel.head is not None
    tokens = texts(generator, rows=5, vocabulary=vocabulary)
    state = prepared.read(tokens, prepared.start(5))[1]
    found, after = prepared.step(tokens.ids[:, 3], state)
    prepared.kernel = dataclasses.replace(prepared.kernel, head=None)
    assert not prepared.batch_invariant_steps
    wanted, other = prepared.step(tokens.ids[:, 3], state)
    assert found.shape == wanted.shape == (5, vocabulary)
    assert (found - wanted).norm() <= (2**-8 if precision == "bfloat16" else 2e-6) * wanted.norm()
    assert torch.equal(after.cache.layers[0].key, other.cache.layers[0].key)


@built
@pytest.mark.parametrize("place", ["norm", "output"])
def test_who_stands_at_the_last_norm_or_map_sees_each_step(place, generator):
    prepared = InferenceDecoder(made("llama", generator), "int8")
    tokens = texts(generator)
    state = prepared.read(tokens, prepared.start(3))[1]
    wanted = prepared.step(tokens.ids[:, 3], state)[0]
    seen = []
    with torch.no_grad():
        handle = prepared.get_submodule(place).register_forward_hook(lambda part, given, output: seen.append(output))
        watched = prepared.step(tokens.ids[:, 3], state)[0]
        handle.remove()
        zeroed = prepared.get_submodule(place).register_forward_hook(lambda part, given, output: 0 * output)
        changed = prepared.step(tokens.ids[:, 3], state)[0]
        zeroed.remove()
    assert len(seen) == 1
    assert (watched - wanted).norm() < 2e-3 * wanted.norm()
    assert not changed.any()
    assert torch.equal(prepared.step(tokens.ids[:, 3], state)[0], wanted)


@every_way
@every_model
def test_hypotheses_about_one_text_share_what_it_passed(name, way, generator):
    prepared = InferenceDecoder(made(name, generator), "int8", compiled=WAYS[way])
    tokens = texts(generator)
    branched = apart = prepared.read(Tokens(tokens.ids[:, :9], tokens.valid[:, :9]), prepared.start(3))[1]
    for rows in ([0, 0, 1, 1, 2, 2], [1, 0, 1, 3, 3, 2, 5, 5, 4], [2, 0, 3, 3, 8, 7]):
        branched, apart = branched.reorder(torch.tensor(rows)), apart.select(torch.tensor(rows))
        ids = torch.arange(3, 3 + len(rows))
        found, branched = prepared.step(ids, branched)
        expected, apart = prepared.step(ids, apart)
        assert (found - expected).norm() < 0.02 * expected.norm()
    assert branched.width == 2


@every_way
@every_model
def test_rows_join_and_leave_at_any_length(name, way, generator):
    prepared = InferenceDecoder(made(name, generator), "int8", compiled=WAYS[way])
    tokens = texts(generator)
    long = prepared.read(Tokens(tokens.ids[:, :9], tokens.valid[:, :9]), prepared.start(3))[1]
    short = prepared.step(torch.tensor([4]), prepared.start(1))[1]
    together = join([long, short])
    for token in (3, 5):
        found, together = prepared.step(torch.full((4,), token), together)
        first, long = prepared.step(torch.full((3,), token), long)
        last, short = prepared.step(torch.tensor([token]), short)
        expected = torch.cat([first, last])
        assert (found - expected).norm() < 0.02 * expected.norm()


@every_way
@every_model
def test_what_is_not_finite_is_seen_where_pytorch_sees_it(name, way, generator):
    """A word whose vector is infinite: nothing finite after it in its own text, nothing changed in the others."""
    prepared = InferenceDecoder(made(name, generator), "int8", compiled=WAYS[way])
    tokens = texts(generator)
    tokens.ids[tokens.ids == 7] = 8
    state = prepared.read(tokens, prepared.start(3))[1]
    clean = prepared.step(torch.tensor([5, 6, 8]), state)[0]
    prepared.embedding.tokens.weight[7] = float("inf")
    poisoned, after = prepared.step(torch.tensor([5, 7, 8]), state)
    assert torch.equal(poisoned[[0, 2]], clean[[0, 2]])
    assert not poisoned[1].isfinite().any()
    later = prepared.step(torch.tensor([5, 6, 8]), after)[0]
    assert later[[0, 2]].isfinite().all()
    assert not later[1].isfinite().any()


@every_way
def test_two_continuations_of_one_prompt_do_not_meet(way, generator):
    prepared = InferenceDecoder(made("gpt2", generator), "int8", compiled=WAYS[way])
    ids = torch.tensor([[3, 4, 5]])
    state = prepared.read(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere"), prepared.start(1))[1]
    wanted = [prepared.step(torch.tensor([first]), state)[0] for first in (7, 8)]
    one, two = (prepared.step(torch.tensor([first]), state) for first in (7, 8))
    assert torch.equal(one[0], wanted[0])
    assert torch.equal(two[0], wanted[1])
    after_one = prepared.step(torch.tensor([9]), one[1])[0]
    again = prepared.step(torch.tensor([9]), prepared.step(torch.tensor([7]), state)[1])[0]
    assert torch.equal(after_one, again)


def test_it_continues_prompts_like_any_model(generator):
    model = made("gpt2", generator)
    prepared = InferenceDecoder(model, "int8")
    source = Tokens.pad([[0, 5, 6, 7], [0, 9]], side="left")
    found = generate(Continuation(prepared), source, limit=FixedLength(8))
    for row, prompt in enumerate([[0, 5, 6, 7], [0, 9]]):
        alone = generate(Continuation(prepared), Tokens.pad([prompt], side="left"), limit=FixedLength(8))
        assert alone[0].tokens == found[row].tokens


@every_precision
def test_it_takes_the_memory_that_its_bits_say(generator, precision):
    model = made("gpt2", generator)
    prepared = InferenceDecoder(model, precision)
    held = sum(
        tensor.nbytes
        for part in prepared.layers.modules()
        if isinstance(part, QuantizedLinear)
        for tensor in part.buffers()
    )
    weights = sum(layer.weight.numel() for layer in model.layers.modules() if isinstance(layer, torch.nn.Linear))
    if kernels().library is not None:
        assert held < weights * (1.2 if precision == "int8" else 0.75)


def test_it_is_for_use_not_for_training_or_saving(generator, tmp_path):
    model = made("gpt2", generator)
    prepared = InferenceDecoder(model, "int4")
    for forbidden in (
        lambda: prepared.train(),
        lambda: prepared.state_dict(),
        lambda: prepared(texts(generator), reduce=lambda *parts: parts),
    ):
        with pytest.raises(InputError, match="rounded to 4 bits, which is for inference, not for training or saving"):
            forbidden()
    with pytest.raises(InputError, match="cannot be moved or converted"):
        prepared.to("meta")
    assert all(not parameter.requires_grad for parameter in prepared.embedding.parameters())
    assert model(texts(generator)).requires_grad  # the model itself is left as it was


def test_what_cannot_be_prepared_is_refused_with_the_reason(generator):
    lstm = LSTMLanguageModel(LSTMLanguageModelConfig(vocabulary=9, embedding_width=4, hidden_width=5))
    with pytest.raises(InputError, match="int8: the model cannot be prepared: a LSTMLanguageModel is no decoder"):
        InferenceDecoder(lstm, "int8")
    model = made("gpt2", generator)
    with regard.look(model):
        assert "which look at it" in unsupported_decoder(model)
    assert unsupported_decoder(model) == ""
    model.layers[1].attention.output = torch.nn.Sequential(model.layers[1].attention.output)
    assert "linear layers" in unsupported_decoder(model)


def test_without_a_compiler_it_says_that_it_is_no_faster(generator):
    prepared = InferenceDecoder(made("gpt2", generator), "int8", compiled=NONE)
    assert prepared.slow == "left out by a test: weights of 8 bits are no faster than bfloat16"


@every_way
@pytest.mark.parametrize("name", ["gpt2", "odd widths"])
@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda made: pickle.loads(pickle.dumps(made)),
        lambda made: pickle.loads(bytes(ForkingPickler.dumps(made))),  # which moves tensors into memory that is shared
    ],
)
def test_a_copy_and_what_another_process_gets_are_the_same_to_the_bit(name, way, copied, generator):
    prepared = InferenceDecoder(made(name, generator), "int4", compiled=WAYS[way])
    tokens, ids = texts(generator), torch.tensor([5, 6, 7])
    wanted, state = prepared.read(tokens, prepared.start(3))
    then = prepared.step(ids, state)[0]
    again = copied(prepared)
    assert torch.equal(prepared(tokens), wanted)
    assert torch.equal(prepared.step(ids, state)[0], then)
    assert again.slow == prepared.slow
    assert (again.kernel is None) == (prepared.kernel is None)
    del prepared  # nothing of it is needed
    found, state = again.read(tokens, again.start(3))
    assert torch.equal(found, wanted)
    assert torch.equal(again.step(ids, state)[0], then)


@built
@every_precision
def test_where_the_other_process_has_no_kernels_it_is_as_if_made_there(precision, generator, monkeypatch):
    model, tokens = made("odd widths", generator), texts(generator)
    sent = pickle.dumps(InferenceDecoder(model, precision))
    for module in (linear, inference):
        monkeypatch.setattr(module, "kernels", lambda: NONE)
    found = pickle.loads(sent)
    assert found.slow == f"left out by a test: weights of {precision[3:]} bits are no faster than bfloat16"
    assert torch.equal(found(tokens), InferenceDecoder(model, precision, compiled=NONE)(tokens))


class OwnOutput(GPT2):
    """A decoder whose last map is not the table of its tokens."""

    def __init__(self, config):
        super().__init__(config)
        self.output = torch.nn.Linear(config.width, config.vocabulary)

    def output_map(self):
        return self.output.weight, self.output.bias


@every_way
def test_an_output_map_of_its_own_is_taken_over(way, generator):
    model = OwnOutput(GPT2Config(**SIZES)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3, generator=generator)
        model.output.bias.normal_(std=3, generator=generator)
    tokens = texts(generator)
    found, wanted = InferenceDecoder(model, "int8", compiled=WAYS[way])(tokens), model(tokens)
    assert (found - wanted)[tokens.valid].norm() < 0.06 * wanted[tokens.valid].norm()


@pytest.mark.parametrize("method", ["logits", "hidden", "_through"])
def test_a_model_that_computes_otherwise_is_not_prepared(method, generator):
    """Its own way would be left out without a word."""
    own = type("Own", (GPT2,), {method: lambda self, *given: getattr(GPT2, method)(self, *given)})
    model = own(GPT2Config(**SIZES)).eval()
    assert unsupported_decoder(model) == f"a {own.__name__} has a `{method}` of its own"
    with pytest.raises(InputError, match=f"has a `{method}` of its own"):
        InferenceDecoder(model, "int8")


@built
@pytest.mark.parametrize("precision", ["int8", "int4", "bfloat16", "float32"])
@pytest.mark.parametrize("looked", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["kernel", "blocks"])
@pytest.mark.parametrize("name", ["gpt2", "gpt3", "llama", "llama as mistral", "gpt_neox", "decoder between the two"])
def test_no_bit_of_a_row_depends_on_its_neighbours(name, looked, precision, generator):
    """Prompts of different lengths, read with padding or one by one; rows that join and leave; logits of every place."""
    prepared = InferenceDecoder(made(name, generator), precision)
    assert prepared.batch_invariant_steps
    tokens = texts(generator, rows=5)
    prompts = [tokens.ids[row, tokens.valid[row]] for row in range(5)]
    with torch.no_grad(), regard.look(prepared) if looked else contextlib.nullcontext():
        alone = [prepared.read(Tokens(ids[None], ids[None] > 0), prepared.start(1)) for ids in prompts]
        read, together = prepared.read(tokens, prepared.start(5))
        for row, (logits, _) in enumerate(alone):
            assert torch.equal(read[row, tokens.valid[row]], logits[0])
        several = prepared.read_texts(prompts)
        one_by_one = [prepared.read_texts([ids]) for ids in prompts]
        states = [state for _, state in alone]

        def step(ids, rows):
            """Of the rows that are left in the batch, in their order."""
            nonlocal together, several
            found, together = prepared.step(ids, together)
            again, several = prepared.step(ids, several)
            for place, row in enumerate(rows):
                own = ids[place : place + 1]
                logits, states[row] = prepared.step(own, states[row])
                assert torch.equal(found[place : place + 1], logits)
                logits, one_by_one[row] = prepared.step(own, one_by_one[row])
                assert torch.equal(again[place : place + 1], logits)

        step(torch.tensor([3, 9, 1, 4, 8]), range(5))
        together, several = (state.select(torch.tensor([4, 1, 2])) for state in (together, several))
        step(torch.tensor([2, 7, 7]), [4, 1, 2])
        together, several = join([states[0], together, states[3]]), join([one_by_one[0], several, one_by_one[3]])
        step(torch.tensor([5, 6, 40, 1, 2]), [0, 4, 1, 2, 3])
