"""What a search asks of a decoder once and not before each token, what it still sees at the next, and blocks without a mode."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.generation import Continuation, FixedLength, generate
from regard.layers import Tokens
from regard.models import GPT2, GPT3, GPT2Config, GPT3Config, Llama, LlamaConfig
from regard.quantization import InferenceDecoder
from regard.quantization.invariance import InvariantActivation, set_batch_invariant
from regard.quantization.native import kernels

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
    """Nothing of the search itself runs in between: the blocks are examined once, for the prompt and once for all tokens."""
    model, seen, calls, examined = made("gpt2", "int8", generator), [], [], []
    place, kernel, untouched = model.layers[1].feedforward.inner, type(model.kernel), type(model.kernel.untouched)
    call, examine = kernel.__call__, untouched.__bool__
    handles = []

    def called(*given, **named):
        calls.append(1)
        if len(calls) == 3:
            handles.append(place.register_forward_hook(lambda *_: seen.append(1)))
        return call(*given, **named)

    monkeypatch.setattr(kernel, "__call__", called)
    monkeypatch.setattr(untouched, "__bool__", lambda self: examined.append(1) or examine(self))
    written(model, 2)
    assert len(calls) == 2
    assert len(examined) == 2
    written(model, 9)
    assert len(calls) == 3
    assert len(seen) == 8  # of all tokens but the first


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

    found = read()
    assert isinstance(model.layers[0].feedforward.activation, InvariantActivation)
    assert model.kernel.untouched
    set_batch_invariant(model, False)
    assert not model.kernel.untouched  # the activations are others: now the mode is around the blocks
    for part, wanted in zip(found, read(), strict=True):
        assert torch.equal(part, wanted)
