"""What a search asks of a decoder once and not before each token, what it still sees at the next, and blocks without a mode."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.generation import Continuation, FixedLength, Forbid, generate
from regard.kernels import kernels
from regard.layers import Tokens
from regard.models import GPT2, GPT3, GPT2Config, GPT3Config, Llama, LlamaConfig
from regard.quantization import InferenceDecoder, decoder
from regard.quantization.invariance import InvariantActivation, set_batch_invariant

SIZES = {"vocabulary": 45, "width": 64, "heads": 2, "feedforward_width": 96, "layers": 3, "maximum_positions": 24}
MODELS = {
    "gpt2": lambda: GPT2(GPT2Config(**SIZES)),
    "gpt3": lambda: GPT3(GPT3Config(**SIZES, band=5)),
    "llama": lambda: Llama(LlamaConfig(**SIZES | {"heads": 4, "key_heads": 2, "head_width": 32})),
}

pytestmark = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")
every_model = pytest.mark.parametrize("name", MODELS)
every_precision = pytest.mark.parametrize("precision", ["int8", "int4", "bfloat16", "float32"])


def made(name, precision, generator):
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3 if parameter.dim() > 1 else 0.1, generator=generator)
    return InferenceDecoder(model, precision)


class Pauses:
    """An observer that does something after each token."""

    def __init__(self, *doing):
        self.doing = list(doing)

    def search_started(self, source):
        pass

    def search_finished(self, hypotheses):
        pass

    def search_paused(self):
        if self.doing:
            self.doing.pop(0)()


def written(model, tokens, observer=None):
    prompt = Tokens.pad([[0, 5, 6, 7]])
    return generate(Continuation(model), prompt, limit=FixedLength(tokens), minimum_length=tokens, observer=observer)[0]


def test_a_hook_registered_during_a_generation_is_honoured_from_the_next_token_on(generator):
    model, seen, handles = made("gpt2", "int8", generator), [], []
    place = model.layers[1].feedforward.inner

    def register():
        handles.append(place.register_forward_hook(lambda *_: seen.append(1)))

    def nothing():
        pass

    plain = written(model, 9)
    written(model, 9, Pauses(nothing, nothing, register, nothing, nothing, lambda: handles[0].remove()))
    assert len(seen) == 3  # of the fourth, fifth and sixth
    assert written(model, 9) == plain


def test_a_hook_that_another_thread_registers_is_honoured_too(generator, monkeypatch):
    """Nothing of the search itself runs in between: the blocks are examined once for all tokens of a call."""
    model, seen, calls, examined = made("gpt2", "int8", generator), [], [], []
    monkeypatch.setattr("regard.quantization.greedy.STEPS", 3)
    place, untouched, search = model.layers[1].feedforward.inner, type(model.kernel.untouched), decoder.greedy
    examine = untouched.__bool__

    def called(*given, **named):
        calls.append(1)
        if len(calls) == 3:
            place.register_forward_hook(lambda *_: seen.append(1))
        return search(*given, **named)

    monkeypatch.setattr(decoder, "greedy", called)
    monkeypatch.setattr(untouched, "__bool__", lambda self: examined.append(1) or examine(self))
    written(model, 4)
    assert len(calls) == 2
    assert len(examined) == 4  # once for the prompt, once where it would make a token alone
    written(model, 9)
    assert len(calls) == 3
    assert len(seen) == 6  # of all tokens but the first three, which were being made


def searches(monkeypatch):
    """The number of tokens that each call of the kernel is asked for and makes."""
    found, search = [], decoder.greedy

    def called(kernel, tokens, present, table, steps, **named):
        result = search(kernel, tokens, present, table, steps, **named)
        found.append((steps, len(result[0])))
        return result

    monkeypatch.setattr(decoder, "greedy", called)
    return found


@every_model
@every_precision
@pytest.mark.parametrize("together", [1, 3, 16])
def test_tokens_that_are_made_in_one_call_are_those_made_one_by_one(name, precision, together, generator, monkeypatch):
    """An observer has them made one by one. Texts end at different tokens; log-probabilities are the same to the bit."""
    model = made(name, precision, generator)
    prompts = Tokens.pad([[0, 5, 6], [0, 7, 7], [0, 9, 30], [0, 44, 2]])
    plain = generate(Continuation(model), prompts, limit=FixedLength(12), minimum_length=12)
    second = {answer.tokens[7] for answer in plain}
    monkeypatch.setattr("regard.quantization.greedy.STEPS", together)
    for settings in (
        {"minimum_length": 12},
        {"minimum_length": 5, "end_tokens": tuple(second)},
        {"end_tokens": (0, *second), "transforms": [Forbid((plain[0].tokens[0], plain[1].tokens[2]))]},
    ):
        found = searches(monkeypatch)
        one = generate(Continuation(model), prompts, limit=FixedLength(12), observer=Pauses(), **settings)
        assert not found
        assert generate(Continuation(model), prompts, limit=FixedLength(12), **settings) == one
        longest = max(answer.length for answer in one)
        if name == "gpt3":  # a step whose text is longer than a sliding window is made alone
            longest = min(longest, 3)
        assert sum(tokens for _, tokens in found) == longest
        if settings == {"minimum_length": 12}:
            assert len(found) == -(-longest // together)


def test_a_call_stops_where_a_row_has_no_token_to_choose(generator):
    model = made("gpt2", "float32", generator)
    model.embedding.positions.weight[6] = torch.nan  # of the fourth token's place
    prompt = Tokens.pad([[0, 5, 6, 7]])
    assert len(generate(Continuation(model), prompt, limit=FixedLength(3), minimum_length=3)[0].tokens) == 3
    for observer in (None, Pauses()):
        with pytest.raises(InputError, match="step 3 of decoding"):
            generate(Continuation(model), prompt, limit=FixedLength(9), minimum_length=9, observer=observer)
    every = tuple(range(45))
    with pytest.raises(InputError, match="every token is forbidden"):
        generate(
            Continuation(made("gpt2", "int4", generator)), prompt, limit=FixedLength(9), transforms=[Forbid(every)]
        )


def test_the_state_after_several_tokens_continues_like_any_other(generator):
    model = made("llama", "bfloat16", generator)
    before = model.read(Tokens.pad([[0, 5, 6], [0, 8, 9]]), model.start(2))[1]
    first = torch.tensor([3, 4])
    found = model.greedy_steps(first, before, most=5, forbidden=(), ends=())
    state, tokens = before, first
    for made_at_once, logits in zip(found.tokens, found.logits, strict=True):
        wanted, state = model.step(tokens, state)
        tokens = wanted.argmax(dim=-1)
        assert torch.equal(logits, wanted)
        assert torch.equal(made_at_once, tokens)
    assert found.state.length == state.length == 8
    assert torch.equal(found.state.cache.layers[0].key, state.cache.layers[0].key)
    (one, after), (other, _) = model.step(tokens, found.state), model.step(tokens, state)
    assert torch.equal(one, other)
    assert after.length == 9
    # The state before is as it was, and another continuation of it does not disturb the first.
    again = model.greedy_steps(first, before, most=2, forbidden=tuple(found.tokens[0].tolist()), ends=())
    assert not set(again.tokens[0].tolist()) & set(found.tokens[0].tolist())
    assert torch.equal(model.step(tokens, found.state)[0], one)


def test_several_tokens_are_made_alone_where_something_must_be_seen_or_refused(generator):
    model = made("gpt2", "int8", generator)
    state = model.read(Tokens.pad([[0, 5, 6]]), model.start(1))[1]
    asked = {"most": 4, "forbidden": (), "ends": ()}
    tokens = torch.tensor([3])
    assert model.greedy_steps(tokens, state, **asked) is not None
    assert model.greedy_steps(torch.tensor([45]), state, **asked) is None
    assert model.greedy_steps(tokens, state, **asked | {"forbidden": (45,)}) is None
    assert len(model.greedy_steps(tokens, state, **asked | {"most": 90}).tokens) <= 21  # positions
    uneven = model.read(Tokens.pad([[0, 5, 6], [5]], side="left"), model.start(2))[1]
    assert model.greedy_steps(torch.tensor([3, 4]), uneven, **asked) is None
    for place in (model.embedding, model.embedding.tokens, model.layers[0].feedforward):
        handle = place.register_forward_hook(lambda *_: None)
        assert model.greedy_steps(tokens, state, **asked) is None
        handle.remove()
    assert model.greedy_steps(tokens, state, **asked) is not None


@every_model
@every_precision
def test_a_text_without_padding_is_stepped_without_a_mask_to_the_same_bits(name, precision, generator):
    model = made(name, precision, generator)
    ids = torch.randint(1, 45, (3, 20), generator=generator)
    valid = torch.ones_like(ids, dtype=torch.bool)
    plain, masked = (model.read(Tokens(ids, valid, side), model.start(3))[1] for side in ("nowhere", "somewhere"))
    assert plain.cache.seen is None
    assert masked.cache.seen is not None
    for place in range(4):
        tokens = ids[:, place]
        (found, plain), (wanted, masked) = (model.step(tokens, state) for state in (plain, masked))
        assert torch.equal(found, wanted)
    assert torch.equal(plain.cache.layers[0].key, masked.cache.layers[0].key)
    for state in (plain, masked):
        with pytest.raises(InputError, match="24"):
            model.step(tokens, state)


@every_model
@every_precision
def test_a_text_is_read_by_parts_as_under_a_mode_around_all_of_them(name, precision, generator):
    model = made(name, precision, generator)
    ids = torch.randint(1, 45, (3, 20), generator=generator)
    valid = torch.ones_like(ids, dtype=torch.bool)
    valid[1, :4] = valid[2, :9] = False

    def read():
        logits, state = model.read(Tokens(ids, valid), model.start(3))
        packed = model.read_texts([row[here] for row, here in zip(ids, valid, strict=True)])
        return logits[valid], state.cache.layers[0].value, packed.cache.layers[0].value

    model.layers[0].register_forward_hook(lambda *_: None)  # for the blocks, not the kernel
    found = read()
    assert isinstance(model.layers[0].feedforward.activation, InvariantActivation)
    set_batch_invariant(model, False)  # now the mode is around the blocks
    for part, wanted in zip(found, read(), strict=True):
        if precision == "float32" and kernels().reads_float32:  # in whose place the mode has PyTorch's product
            torch.testing.assert_close(part, wanted, rtol=1e-4, atol=1e-4)
        else:
            assert torch.equal(part, wanted)


@every_model
@every_precision
def test_a_text_has_the_same_bits_read_at_once_in_parts_packed_and_token_by_token(name, precision, generator):
    model = made(name, precision, generator)
    if not model.reads_by_kernel:
        pytest.skip("on this processor PyTorch is faster at reading texts")
    text = torch.randint(1, 45, (1, 20), generator=generator)
    whole, at_once = model.read(Tokens(text, torch.ones_like(text, dtype=torch.bool), "nowhere"), model.start(1))
    keys = at_once.cache.layers[0].key
    for lengths in ([7, 12, 1], [1] * 20, [13, 7]):
        state, found = model.start(1), []
        for part in text.split(lengths, dim=1):
            logits, state = model.read(Tokens(part, torch.ones_like(part, dtype=torch.bool), "nowhere"), state)
            found.append(logits)
        assert torch.equal(torch.cat(found, dim=1), whole)
        assert torch.equal(state.cache.layers[0].key, keys)
    state, found = model.start(1), []
    for token in text[0]:
        logits, state = model.step(token[None], state)
        found.append(logits)
    assert torch.equal(torch.cat(found), whole[0])
    others = [torch.randint(1, 45, (count,), generator=generator) for count in (3, 1, 20)]
    packed = model.read_texts([others[0], text[0], *others[1:]])
    assert torch.equal(packed.select(torch.tensor([1])).cache.layers[0].key[:, :, -20:], keys)
    for side in ("left", "right"):
        shorter = Tokens.pad([text[0, :9].tolist(), others[2].tolist()], side=side)
        logits = model.read(shorter, model.start(2))[0][0]
        assert torch.equal(logits[shorter.valid[0]], whole[0, :9])


@every_precision
def test_a_long_text_whose_rows_go_through_a_block_in_bands_is_read_as_by_plain_blocks(precision, generator):
    sizes = SIZES | {"maximum_positions": 330, "heads": 2}
    model = GPT2(GPT2Config(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3 if parameter.dim() > 1 else 0.1, generator=generator)
    fast = InferenceDecoder(model, precision)
    if not fast.reads_by_kernel:
        pytest.skip("on this processor PyTorch is faster at reading texts")
    ids = torch.randint(1, 45, (2, 321), generator=generator)
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")
    found = fast.read(tokens, fast.start(2))[0]
    state, parts = fast.start(2), []
    for part in ids.split([130, 60, 131], dim=1):
        logits, state = fast.read(Tokens(part, torch.ones_like(part, dtype=torch.bool), "nowhere"), state)
        parts.append(logits)
    assert torch.equal(torch.cat(parts, dim=1), found)
    fast.layers[0].register_forward_hook(lambda *_: None)
    by_blocks = fast.read(tokens, fast.start(2))[0]
    bound = {"float32": 1e-4, "bfloat16": 0.1}.get(precision, 0.2)
    assert (found - by_blocks).norm() <= bound * by_blocks.norm()
    assert precision != "float32" or (found - model(tokens)).norm() <= 1e-3 * found.norm()


@every_model
@every_precision
def test_gradients_flow_back_to_the_vectors_of_tokens(name, precision, generator):
    """As attribution takes them: by a hook of the embedding, which is no part of the blocks."""
    model, put = made(name, precision, generator), []
    ids = torch.randint(1, 45, (2, 7), generator=generator)
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")
    handle = model.embedding.register_forward_hook(lambda module, given, vectors: put[-1] if put else vectors)

    def score(vectors):
        put.append(vectors)
        found, state = model.read(tokens, model.start(2))
        put.clear()
        return found.log_softmax(dim=-1)[..., 3].sum(), state

    vectors = model.embedding(ids, torch.arange(7).expand(2, -1))
    found, state = score(vectors.requires_grad_())
    (slope,) = torch.autograd.grad(found, vectors)
    handle.remove()
    assert slope.abs().max() > 0
    logits, after = model.step(torch.tensor([3, 4]), state)
    assert logits.isfinite().all()
    assert after.length == 8
    if precision == "float32":
        handle = model.embedding.register_forward_hook(lambda module, given, vectors: put[-1] if put else vectors)
        way = slope / slope.norm()
        with torch.no_grad():
            ends = [score(vectors + sign * 0.01 * way)[0] for sign in (1, -1)]
        torch.testing.assert_close((ends[0] - ends[1]) / 0.02, slope.norm(), rtol=2e-2, atol=1e-2)
