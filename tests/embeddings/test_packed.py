"""The prepared encoder beside the model it was made of: equal vectors, any batch and precision, and when it is not to be used."""

from __future__ import annotations

import threading

import pytest
import torch

import regard
from regard.embeddings import PackedEncoder, PlainReader, Readers, read_all
from regard.embeddings.reading import batches
from regard.errors import InputError
from regard.inspection.editing import ScaleHeads, change
from regard.kernels import Kernels, kernels
from regard.layers import Tokens
from regard.quantization import unsupported_encoder
from regard.quantization.encoder import KernelLayer
from regard.quantization.encoder_attention import SHORT


def read(reader, texts, layers, **settings):
    """The states of each text, (L, D) for each layer, padding taken off."""
    found = [None] * len(texts)

    def use(group):
        for place, row in enumerate(group.rows):
            keep = slice(None) if group.valid is None else group.valid[place]
            found[row] = [state[place][keep].float() for state in group.states]

    read_all(reader, texts, layers, use, **settings)
    return found


VARIANTS = {
    "bert": {},
    "distilbert": {"family": "distilbert"},
    "pruned": {"pruned_heads": ((1, 0), (1, 2), (3, 1))},
    "relu": {"activation": "relu"},
    "one head": {"heads": 1},
    "with a head": {"head": "masked"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_layer_is_what_the_model_gives(encoder, rows, variant):
    model = encoder(**VARIANTS[variant])
    texts = rows(5, 2, 5, 9, 1, 24)
    found = read(PackedEncoder.of(model, "float32"), texts, range(5))
    for text, states in zip(texts, found, strict=True):
        with torch.no_grad():
            wanted = model.hidden_states(Tokens.pad([text]))
        for ours, theirs in zip(states, wanted, strict=True):
            torch.testing.assert_close(ours, theirs[0], rtol=1e-5, atol=1e-5)


def test_five_tokens_and_five_hundred_together_give_what_each_alone_gives(encoder, rows):
    model = encoder(maximum_positions=512, width=24)
    short, long = texts = rows(5, 500)
    for reader in (PackedEncoder.of(model, "float32"), PlainReader(model)):
        together = read(reader, texts, [4])
        for text, found in zip((short, long), together, strict=True):
            torch.testing.assert_close(found[0], read(reader, [text], [4])[0][0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_lower_precision_is_close_and_no_text_hears_of_another(encoder, rows, precision):
    model = encoder(scale=0.5)
    texts = rows(5, 9, 3, 9, 17)
    packed = PackedEncoder.of(model, precision)
    exact, found = read(PlainReader(model), texts, [4]), read(packed, texts, [4])
    for number, text in enumerate(texts):
        ours, theirs = found[number][0], exact[number][0]
        assert torch.cosine_similarity(ours, theirs, dim=-1).min() > (0.9 if precision == "int4" else 0.99)
        alone = read(packed, [text], [4])[0][0]
        torch.testing.assert_close(ours, alone, rtol=2e-2, atol=2e-2) if precision == "bfloat16" else None
        if precision != "bfloat16":
            torch.testing.assert_close(ours, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")
@pytest.mark.parametrize("precision", ["float32", "int8", "int4"])
@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_tanh"])
def test_blocks_by_the_kernel_of_decoders_give_the_same_bits_in_any_batch_and_what_pytorch_computes(
    encoder, rows, precision, activation
):
    sizes = {"width": 96, "heads": 3, "feedforward_width": 160, "maximum_positions": 300}
    model, texts = encoder(**sizes, activation=activation, scale=0.2), rows(1, 3, 16, 17, 40, 2, 300, 5)
    packed = PackedEncoder.of(model, precision)
    if precision == "float32" and not kernels().reads_float32:
        pytest.skip("on this processor PyTorch is faster in float32")
    assert all(isinstance(layer, KernelLayer) for layer in packed.layers)
    ours, theirs = read(packed, texts, [1, 4]), read(PlainReader(model), texts, [1, 4])
    least = {"float32": 0.999999, "int8": 0.995, "int4": 0.9}[precision]
    for text, found, wanted in zip(texts, ours, theirs, strict=True):
        assert all(
            torch.cosine_similarity(one, other, dim=-1).min() > least for one, other in zip(found, wanted, strict=True)
        )
        assert all(map(torch.equal, found, read(packed, [text], [1, 4])[0]))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        again = next(iter(packed.read(texts[:3], [4]))).states[0]
    finally:
        torch.set_num_threads(before)
    assert torch.equal(again[0, :1], ours[0][1][:1])


@pytest.mark.parametrize("precision", ["float32", "int8", "int4"])
def test_what_the_kernel_does_not_support_goes_by_pytorch(encoder, rows, precision):
    texts = rows(1, 3, 16)
    for model, compiled in ((encoder(width=24), None), (encoder(width=96), Kernels(None, "none wanted"))):
        packed = PackedEncoder.of(model, precision, compiled=compiled)
        assert not any(isinstance(layer, KernelLayer) for layer in packed.layers)
        for found, wanted in zip(read(packed, texts, [4]), read(PlainReader(model), texts, [4]), strict=True):
            assert torch.cosine_similarity(found[0], wanted[0], dim=-1).min() > 0.9


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_neither_batches_nor_threads_change_what_is_found(encoder, rows, threads, batch_tokens):
    model = encoder()
    texts = rows(*[3, 1, 7, 7, 12, 2, 5] * 4)
    packed = PackedEncoder.of(model, "float32")
    wanted = read(packed, texts, [2, 4])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = read(packed, texts, [2, 4], batch_tokens=batch_tokens)
        assert torch.get_num_threads() == threads
        seen = []
        other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert seen == [threads], "threads begun later compute with as many as before"
    finally:
        torch.set_num_threads(before)
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [60, 96])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_attention_by_the_kernel_is_what_pytorch_computes(encoder, rows, precision, width):
    model, texts = encoder(maximum_positions=SHORT, heads=3, width=width), rows(1, 3, 16, 17, 40, 2, SHORT)
    without = PackedEncoder.of(model, precision, compiled=Kernels(None, "none wanted"))
    ours, theirs = (read(packed, texts, [1, 4]) for packed in (PackedEncoder.of(model, precision), without))
    near = {"rtol": 1e-5, "atol": 1e-5} if precision == "float32" else {"rtol": 3e-2, "atol": 3e-2}
    for one, other in zip(ours, theirs, strict=True):
        for mine, yours in zip(one, other, strict=True):
            torch.testing.assert_close(mine, yours, **near)


def test_a_text_longer_than_the_kernel_is_for_is_read_beside_short_ones(encoder, rows):
    model, texts = encoder(maximum_positions=SHORT + 1), rows(SHORT + 1, 3, 9)
    found = read(PackedEncoder.of(model, "float32"), texts, [4])
    for text, states in zip(texts, found, strict=True):
        with torch.no_grad():
            wanted = model.hidden_states(Tokens.pad([text]))[4][0]
        torch.testing.assert_close(states[0], wanted, rtol=1e-5, atol=1e-5)


def test_batches_hold_every_row_once_and_no_more_than_they_may():
    lengths = [3, 9, 2, 4, 4, 30, 1]
    found = batches(lengths, 10)
    assert sorted(row for batch in found for row in batch) == list(range(7))
    assert all(sum(lengths[row] for row in batch) <= 10 for batch in found if len(batch) > 1)
    assert found[0] == [5], "the longest first"


def test_a_fault_in_a_thread_is_raised(encoder, rows):
    packed = PackedEncoder.of(encoder(), "float32")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError):
            read_all(packed, rows(3, 4, 5, 6), [1], lambda group: 1 / 0, batch_tokens=4)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# --- when the model itself is read ---


def test_who_looks_sees_the_attention_of_the_model(encoder, rows):
    model = encoder()
    texts = rows(4, 6)
    readers = Readers(model, 0)
    assert isinstance(readers.reader(), PackedEncoder)
    unseen = read(readers.reader(), texts, [4])
    with regard.look(model) as seen:
        reader = readers.reader()
        found = read(reader, texts, [4])
    assert isinstance(reader, PlainReader)
    assert seen.weights("layers.3.attention").shape == (2, 3, 6, 6)
    for ours, theirs in zip(found, unseen, strict=True):
        torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    assert isinstance(readers.reader(), PackedEncoder)


def test_what_is_changed_from_outside_changes_the_vectors(encoder, rows):
    model = encoder()
    texts = rows(4)
    readers = Readers(model, 0)
    usual = read(readers.reader(), texts, [4])[0][0]
    with change(model, ScaleHeads(address="layers.0.attention", heads=[0, 1])):
        silenced = read(readers.reader(), texts, [4])[0][0]
    assert not torch.allclose(usual, silenced, atol=1e-3)


def test_a_hook_is_called(encoder, rows):
    model = encoder()
    called = []
    handle = model.layers[1].register_forward_hook(lambda *_: called.append(1))
    read(Readers(model, 0).reader(), rows(4), [4])
    handle.remove()
    assert called == [1]


def test_a_copy_is_made_anew_once_the_model_has_learnt(encoder, rows):
    model = encoder()
    texts, readers = rows(4), Readers(model, 0)
    first = readers.reader()
    assert readers.reader() is first
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model(Tokens.pad(texts)).hidden.sum().backward()
    optimizer.step()
    assert not first.is_of(model)
    found = read(readers.reader(), texts, [4])[0][0]
    with torch.no_grad():
        torch.testing.assert_close(found, model(Tokens.pad(texts)).hidden[0], rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        model.layers[2].feedforward.inner.weight.mul_(1.1)
    assert not readers.reader().is_of(encoder())
    with torch.no_grad():
        torch.testing.assert_close(
            read(readers.reader(), texts, [4])[0][0], model(Tokens.pad(texts)).hidden[0], rtol=1e-5, atol=1e-5
        )


def test_a_model_made_in_inference_mode_is_read_and_seen_to_change(encoder, rows):
    texts = rows(4)
    with torch.inference_mode():
        model = encoder()
        readers = Readers(model, 0)
        first = readers.reader()
        assert readers.reader() is first
        model.layers[2].feedforward.inner.weight.mul_(1.1)
        found = read(readers.reader(), texts, [4])[0][0]
        torch.testing.assert_close(found, model(Tokens.pad(texts)).hidden[0], rtol=1e-5, atol=1e-5)


def test_another_mechanism_is_read_by_the_model_itself(encoder):
    from regard.attention import Cosine, ScoredAttention

    model = encoder()
    model.layers[2].attention.attention = ScoredAttention(Cosine())
    assert unsupported_encoder(model) == "layers.2 is not BERT's"
    assert isinstance(Readers(model, 0).reader(), PlainReader)
    with pytest.raises(InputError, match="cannot be prepared"):
        PackedEncoder.of(model, "float32")
    assert "no text encoder" in unsupported_encoder(torch.nn.Linear(2, 3))


def test_an_unknown_precision_is_refused(encoder):
    with pytest.raises(InputError, match="did you mean 'bfloat16'"):
        Readers(encoder(), 0).reader("bfloat")
    assert isinstance(Readers(encoder().double(), 0).reader(), PlainReader)
