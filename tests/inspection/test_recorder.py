"""The recorder: exact, out of the way, and never lying."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import regard
from regard.attention import Attention, AttentionInputs, Hard, Padding, ScaledDot, ScoredAttention
from regard.errors import InputError
from regard.generation import GenerationSettings, search
from regard.inspection.hooks.interception import attention_addresses
from regard.layers import Tokens
from regard.models import Sutskever, SutskeverConfig

FAMILIES = pytest.mark.parametrize("family", ["bahdanau", "luong", "transformer"])
UNSUMMED = {"luong"}  # looks through a Gaussian: its weights do not sum to one
CROSS = {
    "bahdanau": "decoder.attention",
    "luong": "decoder.attention",
    "transformer": "decoder.layers.1.cross_attention",
}

WAYS = {
    "greedy": GenerationSettings(maximum_length=7),
    "beam": GenerationSettings(maximum_length=7, beam=3),
    "n-best": GenerationSettings(maximum_length=7, beam=4, n_best=4),
    "covered": GenerationSettings(maximum_length=7, beam=3, coverage_penalty=0.3),
    "samples": GenerationSettings(maximum_length=7, sample=True, n_best=3, temperature=1.5, seed=8),
}


@contextlib.contextmanager
def spied(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Weights of every call as its mechanism gives them there and then, by address; no part of the recorder is used."""
    seen: dict[str, list[Tensor]] = {}
    handles = []
    for name, part in model.named_modules():
        if isinstance(part, Attention):

            def keep(mechanism: Any, arguments: Any, name: str = name.removesuffix(".attention")) -> None:
                with torch.no_grad():
                    seen.setdefault(name, []).append(mechanism.weights(arguments[0]).clone())

            handles.append(part.register_forward_pre_hook(keep))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def touched(model: nn.Module) -> int:
    """How many things stand around or before the modules that were not there when the model was built."""
    return sum(
        len(part._forward_hooks) + len(part._forward_pre_hooks) + ("forward" in part.__dict__)
        for part in model.modules()
    )


def exactly(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


# --- what is recorded ----------------------------------------------------------------------------------------


@FAMILIES
def test_teacher_forced_weights_are_those_of_the_mechanism(family, model, batch):
    looked_at = model(family)
    with spied(looked_at) as spy, regard.look(looked_at) as seen:
        looked_at(*batch)
    assert sorted(seen.addresses) == sorted(spy)
    for address, calls in spy.items():
        exactly(seen.weights(address), torch.cat(calls, dim=2))
        assert seen.weights(address).dtype == torch.float32


@FAMILIES
def test_teacher_forced_weights_are_the_alignments_of_stepping(family, model, batch):
    """Against `alignment(state)`, step by step: (N, S), the mean over heads."""
    looked_at = model(family)
    source, target = batch
    with regard.look(looked_at) as seen:
        looked_at(source, target)
    weights = seen.weights(CROSS[family]).mean(dim=1)
    with torch.no_grad():
        state = looked_at.start(source)
        for step in range(target.ids.shape[1]):
            _, state = looked_at.step(target.ids[:, step], state)
            alignment = looked_at.alignment(state)
            for row in range(len(source)):
                if target.valid[row, step]:
                    torch.testing.assert_close(weights[row, step], alignment[row], rtol=1e-4, atol=1e-5)


@FAMILIES
@pytest.mark.parametrize("way", WAYS)
def test_every_surviving_hypothesis_has_its_teacher_forced_map(family, way, model, batch):
    """A beam shuffles rows at every step; the record of an answer is that of reading the same tokens in one pass."""
    looked_at = model(family)
    source = batch[0]
    recorder_seen = {}
    with regard.look(looked_at) as seen:
        # A bare model has no task to tell of searches, so the recorder is the search's observer itself.
        answers = search(looked_at, source, WAYS[way], observer=seen.recorder)
    checked = 0
    for row, found in enumerate(answers):
        for number, answer in enumerate(found):
            # With several samples each source stands there so many times in a row.
            place, rank = (row * len(found) + number, 0) if way == "samples" else (row, number)
            text = Tokens(source.ids[row : row + 1], source.valid[row : row + 1])
            read = [1, *answer.tokens][: answer.length]
            with regard.look(looked_at) as forced, torch.no_grad():
                looked_at(text, Tokens.pad([read]))
            for address in seen.addresses:
                found_map = seen.weights(address, rows=place, hypothesis=rank)
                wanted = forced.weights(address)
                lengths = wanted.shape[2:]
                if not address.startswith("encoder"):
                    assert not found_map[:, :, lengths[0] :].any(), "steps after the end are zero"
                assert not found_map[:, :, :, lengths[1] :].any(), "keys that were not there yet are zero"
                torch.testing.assert_close(found_map[:, :, : lengths[0], : lengths[1]], wanted, rtol=1e-3, atol=2e-5)
                checked += 1
            recorder_seen[answer.rows] = answer
    assert checked >= 3 * len(seen.addresses)
    if way == "n-best":
        assert any(len(set(rows)) > 1 for rows in recorder_seen), "some hypothesis has to have changed rows"


def test_self_attention_grows_with_the_cache(model, batch):
    looked_at = model("transformer")
    with regard.look(looked_at) as seen:
        (best,), *_ = search(looked_at, batch[0], WAYS["greedy"], observer=seen.recorder)
    weights = seen.weights("decoder.layers.0.attention", rows=0)[0]
    assert weights.shape[1:] == (best.length, best.length)
    exactly(weights.triu(1), torch.zeros_like(weights))
    exactly(weights.sum(-1), torch.ones(weights.shape[:2]))


@FAMILIES
def test_steps_of_ones_own_are_recorded(family, model, batch):
    looked_at = model(family)
    alignments = []
    with torch.no_grad(), regard.look(looked_at) as seen:
        state = looked_at.start(batch[0])
        for token in (1, 5, 3):
            _, state = looked_at.step(torch.full((3,), token), state)
            alignments.append(looked_at.alignment(state))
        looked_at(*batch)
    assert len(seen.runs) == 2
    exactly(seen.weights(CROSS[family], run=0).mean(dim=1), torch.stack(alignments, dim=1))
    assert seen.weights(CROSS[family]).shape[2] == batch[1].ids.shape[1]


@FAMILIES
def test_a_translators_searches_are_recorded_and_answers_told(family, translator):
    looked_at = translator(family)
    with regard.look(looked_at) as seen:
        one = looked_at.translate("abc")
        two = looked_at.translate_batch(["gh", "kk lk"], WAYS["beam"])
    assert [run.predictions for run in seen.runs] == [[one], two]
    assert seen.weights(CROSS[family], run=0).shape[:3:2] == (1, len(one.target_tokens))


@FAMILIES
def test_training_is_recorded_before_dropout(family, model, batch):
    drops = {"dropout": 0.4} | ({"attention_dropout": 0.5} if family == "transformer" else {})
    looked_at = model(family, **drops).train()
    with spied(looked_at) as spy, regard.look(looked_at) as seen:
        looked_at(*batch).sum().backward()
    real = batch[1].valid
    for address, calls in spy.items():
        weights = seen.weights(address)
        exactly(weights, torch.cat(calls, dim=2))
        if address.startswith("decoder") and family not in UNSUMMED:
            rows = weights.permute(0, 2, 1, 3)[real]
            exactly(rows.sum(-1), torch.ones(rows.shape[:-1]))
    assert any(parameter.grad is not None for parameter in looked_at.parameters())


def test_what_the_layer_draws_is_recorded(model, batch):
    """The weights of hard attention in training: one word each, the one whose annotation went on; drawn anew in each pass."""
    net = model("bahdanau").train()
    net.decoder.attention.attention = ScoredAttention(net.decoder.attention.attention.score, Hard())
    contexts = []
    net.decoder.context.register_forward_pre_hook(lambda module, given: contexts.append(given[0].detach()))
    seen = []
    for _ in range(2):
        contexts.clear()
        with regard.look(net) as record:
            net(*batch)
        weights = record.weights("decoder.attention")[:, 0]
        annotations, _ = net.encoder(batch[0])
        assert set(weights.unique().tolist()) == {0.0, 1.0}
        torch.testing.assert_close(weights @ annotations.detach(), torch.stack(contexts, dim=1))
        seen.append(weights)
    assert not torch.equal(*seen)


@FAMILIES
def test_inference_mode_is_recorded(family, model, batch):
    looked_at = model(family)
    with torch.inference_mode(), spied(looked_at) as spy, regard.look(looked_at) as seen:
        looked_at(*batch)
        answers = search(looked_at, batch[0], WAYS["beam"], observer=seen.recorder)
    assert answers
    for address in seen.addresses:
        calls = spy[address][: len(seen.runs[0].calls[address])]
        exactly(seen.weights(address, run=0), torch.cat(calls, dim=2))
    with regard.look(looked_at) as again:
        search(looked_at, batch[0], WAYS["beam"], observer=again.recorder)
    for address in seen.addresses:
        torch.testing.assert_close(seen.weights(address, run=1), again.weights(address), rtol=1e-5, atol=1e-6)


@FAMILIES
def test_bfloat16_is_read_in_float32(family, model, batch):
    looked_at = model(family)
    with regard.look(looked_at) as whole:
        looked_at(*batch)
    half = copy.deepcopy(looked_at).to(torch.bfloat16)
    with spied(half) as spy, regard.look(half) as seen:
        half(*batch)
    for address in seen.addresses:
        weights = seen.weights(address)
        assert weights.dtype == torch.float32
        exactly(weights, torch.cat(spy[address], dim=2))
        # Rounded only in what went in, not in the softmax: rows still sum to one as float32 rows do.
        sums = weights.sum(-1)
        if family not in UNSUMMED:
            exactly(sums[sums > 0], torch.ones_like(sums[sums > 0]))
    with torch.autocast("cpu", torch.bfloat16), regard.look(looked_at) as mixed:
        looked_at(*batch)
        inside = mixed.weights(CROSS[family])
    exactly(inside, mixed.weights(CROSS[family]))
    # Attention that is this sharp magnifies the rounding of queries and keys; on average it must still be close.
    assert (inside - whole.weights(CROSS[family])).abs().mean() < 0.05


# --- nothing changes -----------------------------------------------------------------------------------------


@FAMILIES
def test_outputs_are_bit_identical(family, model, translator, batch):
    looked_at = model(family, dropout=0.2).train()

    def step() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(3)
        looked_at.zero_grad()
        output = looked_at(*batch)
        output.square().sum().backward()
        return output.detach(), [parameter.grad.clone() for parameter in looked_at.parameters()]

    with torch.random.fork_rng():
        plain = step()
        with regard.look(looked_at):
            looked = step()
    assert torch.equal(plain[0], looked[0])
    assert all(map(torch.equal, plain[1], looked[1]))

    decoder = translator(family)
    for settings in WAYS.values():
        texts = ["abc", "gh", "ll kb", "a"]
        plain_answers = decoder.translate_batch(texts, settings)
        with regard.look(decoder):
            assert decoder.translate_batch(texts, settings) == plain_answers


def test_the_fast_kernel_still_runs(model, batch, monkeypatch):
    """Looking computes no weights until they are read."""
    calls = []
    real = ScoredAttention.weights
    monkeypatch.setattr(ScoredAttention, "weights", lambda self, inputs: calls.append(1) or real(self, inputs))
    looked_at = model("transformer")
    with regard.look(looked_at) as seen:
        looked_at(*batch)
    assert calls == []
    seen.weights("encoder.layers.0.attention")
    assert calls == [1]


@FAMILIES
def test_nothing_stays_after_the_block(family, translator):
    looked_at = translator(family)
    with regard.look(looked_at):
        assert touched(looked_at.model) > 0
    assert touched(looked_at.model) == 0
    with contextlib.suppress(ZeroDivisionError), regard.look(looked_at) as seen:
        looked_at.translate("abc")
        raise ZeroDivisionError
    assert touched(looked_at.model) == 0
    assert looked_at._observers == []
    assert seen.weights(CROSS[family]).shape[0] == 1
    looked_at.translate("abc")
    assert len(seen.runs) == 1


# --- it never lies -------------------------------------------------------------------------------------------


def test_a_parameter_changed_since_raises(model, batch):
    looked_at = model("bahdanau").train()
    optimizer = torch.optim.AdamW(looked_at.parameters(), lr=0.1)
    with regard.look(looked_at) as seen:
        looked_at(*batch).sum().backward()
        before = seen.weights("decoder.attention").clone()
        assert before.isfinite().all()
        optimizer.step()
        with pytest.raises(InputError, match=r"decoder\.attention: a parameter of the attention changed"):
            seen.weights("decoder.attention")
        looked_at(*batch)
    assert not torch.equal(seen.weights("decoder.attention"), before)


@pytest.mark.parametrize("settings", [{"foreach": True}, {"fused": True}, {"foreach": False}])
def test_every_kind_of_optimizer_is_noticed(settings, model, batch):
    looked_at = model("bahdanau").train()
    optimizer = torch.optim.AdamW(looked_at.parameters(), lr=0.1, **settings)
    with regard.look(looked_at) as seen:
        looked_at(*batch).sum().backward()
    optimizer.step()
    with pytest.raises(InputError, match="changed"):
        seen.weights("decoder.attention")


@pytest.mark.parametrize("change", ["load", "assign", "dtype", "exchange"])
def test_a_parameter_exchanged_since_raises(change, model, batch):
    looked_at = model("bahdanau")
    with regard.look(looked_at) as seen:
        looked_at(*batch)
    other = {name: tensor + 1 for name, tensor in looked_at.state_dict().items()}
    if change == "dtype":
        looked_at.to(torch.bfloat16)
    elif change == "exchange":
        looked_at.decoder.attention.attention.score.weight = nn.Parameter(torch.ones(7))
    else:
        looked_at.load_state_dict(other, assign=change == "assign")
    with pytest.raises(InputError, match="a parameter of the attention"):
        seen.weights("decoder.attention")


def test_weights_without_parameters_of_their_own_outlive_a_step(model, batch):
    """The Transformer's weights are a function of queries and keys alone, and those are kept."""
    looked_at = model("transformer").train()
    with regard.look(looked_at) as seen:
        looked_at(*batch).sum().backward()
    before = {address: seen.weights(address) for address in seen.addresses}
    torch.optim.SGD(looked_at.parameters(), lr=1.0).step()
    for address, weights in before.items():
        assert torch.equal(seen.weights(address), weights)


class Alone(nn.Module):
    """One mechanism, called with whatever inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = ScoredAttention(ScaledDot())

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        return self.attention(inputs, value)


@pytest.mark.parametrize("changed", ["query", "key", "valid", "positions", "record"])
def test_inputs_changed_in_place_since_raise(changed, generator):
    tensors = {
        "query": torch.randn(2, 3, 5, 4, generator=generator),
        "key": torch.randn(2, 3, 7, 4, generator=generator),
        "valid": torch.ones(2, 7, dtype=torch.bool),
        "positions": torch.arange(7).repeat(2, 1),
        "record": torch.zeros(2, 1),
    }
    inputs = AttentionInputs(
        query=tensors["query"],
        key=tensors["key"],
        mask=Padding(tensors["valid"]) & Padding(tensors["valid"]),
        key_positions=tensors["positions"],
        record={"gate": tensors["record"]},
    )
    looked_at = Alone()
    with regard.look(looked_at) as seen:
        looked_at(inputs, torch.randn(2, 3, 7, 6, generator=generator))
    exactly(seen.weights("attention"), looked_at.attention.weights(inputs))
    tensors[changed][0] = 0
    with pytest.raises(InputError, match="changed since it was recorded"):
        seen.weights("attention")


def test_a_cache_written_in_place_is_not_misread(generator):
    """A preallocated cache: each step writes into the same memory."""
    cache = torch.zeros(1, 3, 6, 4)
    looked_at = Alone()
    wanted = []
    with regard.look(looked_at) as seen:
        for step in range(3):
            cache[:, :, step] = torch.randn(1, 3, 4, generator=generator)
            inputs = AttentionInputs(query=torch.randn(1, 3, 1, 4, generator=generator), key=cache)
            wanted.append(looked_at.attention.weights(inputs))
            looked_at(inputs, cache)
    assert len(seen.runs) == 3
    for run in range(3):
        exactly(seen.weights("attention", run=run), wanted[run])


# --- what is kept --------------------------------------------------------------------------------------------


def kept_keys(calls: list) -> set[int]:
    return {id(call.key) for call in calls if call.key is not None}


@FAMILIES
def test_keys_seen_again_are_kept_once(family, model, batch):
    looked_at = model(family)
    source = batch[0]
    with regard.look(looked_at) as seen:
        search(looked_at, Tokens(source.ids[:1], source.valid[:1]), WAYS["greedy"], observer=seen.recorder)
        looked_at(*batch)
    searched, forced = (run.calls[CROSS[family]] for run in seen.runs)
    assert len(searched) > 3
    assert len(kept_keys(searched)) == 1
    assert len(kept_keys(forced)) == 1
    (call, *_) = searched
    assert call.key is not None
    assert call.inputs is not None
    assert call.inputs.key.data_ptr() == call.key.tensor.data_ptr()


def test_another_view_of_the_same_memory_is_another_key(generator):
    class Twice(Alone):
        def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
            turned = AttentionInputs(query=inputs.query, key=inputs.key.transpose(2, 3))
            return self.attention(inputs, value) + self.attention(turned, value)

    looked_at = Twice()
    key = torch.randn(1, 2, 4, 4, generator=generator)
    inputs = AttentionInputs(query=torch.randn(1, 2, 9, 4, generator=generator), key=key)
    with spied(looked_at) as spy, regard.look(looked_at) as seen:
        looked_at(inputs, torch.randn(1, 2, 4, 3, generator=generator))
    exactly(seen.weights("attention"), torch.cat(spy["attention"], dim=2))


def test_a_growing_cache_is_not_kept_at_every_length(model, batch):
    looked_at = model("transformer")
    with regard.look(looked_at) as seen:
        search(looked_at, batch[0], WAYS["greedy"], observer=seen.recorder)
    calls = seen.runs[0].calls["decoder.layers.0.attention"]
    assert len(calls) > 3
    assert all(call.weights is not None for call in calls[1:]), "the weights of one new row are the smaller thing"


def test_keys_are_not_copied(model, batch):
    looked_at = model("transformer")
    keys = []
    handle = looked_at.encoder.layers[0].attention.attention.register_forward_pre_hook(
        lambda module, arguments: keys.append(arguments[0].key.data_ptr())
    )
    with regard.look(looked_at) as seen:
        looked_at(*batch)
    handle.remove()
    (call,) = seen.runs[0].calls["encoder.layers.0.attention"]
    assert [call.key.tensor.data_ptr()] == keys
    assert not call.key.tensor.requires_grad


def test_the_latest_runs_are_kept(model, batch):
    looked_at = model("transformer")
    with regard.look(looked_at, keep=2) as seen, torch.no_grad():
        for length in (2, 3, 4, 5):
            looked_at(batch[0], Tokens.pad([[1] * length] * 3))
    assert [seen.weights(CROSS["transformer"], run=run).shape[2] for run in (0, 1)] == [4, 5]


@pytest.mark.parametrize("keep", [0, -1])
def test_keeping_none_is_refused(keep, model):
    with pytest.raises(InputError, match="keep"), regard.look(model("bahdanau"), keep=keep):
        pass


# --- which layers --------------------------------------------------------------------------------------------


def test_addresses_are_the_layers_names(model):
    assert list(attention_addresses(model("bahdanau"))) == ["decoder.attention"]
    assert list(attention_addresses(model("transformer"))) == [
        "encoder.layers.0.attention",
        "encoder.layers.1.attention",
        "decoder.layers.0.attention",
        "decoder.layers.0.cross_attention",
        "decoder.layers.1.attention",
        "decoder.layers.1.cross_attention",
    ]


def test_patterns_choose_layers(model, batch):
    looked_at = model("transformer")
    with regard.look(looked_at, ["decoder.layers.*.cross_attention", "encoder.layers.1.attention"]) as seen:
        looked_at(*batch)
    chosen = ["decoder.layers.0.cross_attention", "decoder.layers.1.cross_attention", "encoder.layers.1.attention"]
    assert seen.addresses == chosen
    assert sorted(seen.runs[0].calls) == sorted(chosen)


def test_an_unknown_address_lists_the_known(model):
    looked_at = model("bahdanau")
    match = r"'decoder\.attn'; choose from decoder\.attention"
    with pytest.raises(InputError, match=match), regard.look(looked_at, ["decoder.attn"]):
        pass
    assert touched(looked_at) == 0


def test_a_model_without_attention_is_refused():
    config = SutskeverConfig(source_vocabulary=9, target_vocabulary=9, embedding_width=4, hidden_width=5)
    with pytest.raises(InputError, match="no attention"), regard.look(Sutskever(config)):
        pass


def test_hidden_states_alone_of_a_model_without_attention():
    config = SutskeverConfig(source_vocabulary=9, target_vocabulary=9, embedding_width=4, hidden_width=5)
    looked_at = Sutskever(config).eval()
    with torch.no_grad(), regard.look(looked_at, hidden=["encoder.embedding"]) as seen:
        looked_at(Tokens.pad([[3, 4]]), Tokens.pad([[1, 3]]))
    assert seen.hidden("encoder.embedding").shape == (1, 2, 4)


def test_a_pattern_of_modules_means_them_and_not_their_parts(model, batch):
    looked_at = model("transformer")
    with torch.no_grad(), regard.look(looked_at, hidden=["encoder.layers.*"]) as seen:
        looked_at(*batch)
    assert list(seen.runs[-1].hidden) == ["encoder.layers.0", "encoder.layers.1"]


def test_a_module_in_which_nothing_attends_says_so_when_it_is_read():
    with regard.look(nn.Linear(2, 2)) as seen:
        seen.recorder.module(torch.ones(1, 2))
    for read in (seen.view, lambda: seen.weights("Linear"), seen.attentions):
        with pytest.raises(InputError, match="no attention was called"):
            read()


def test_any_module_with_attention_inside_can_be_looked_at(model, batch):
    class Other(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, source: Tokens) -> Tensor:
            return self.inner(source)

    looked_at = Other(model("transformer").encoder)
    with spied(looked_at) as spy, regard.look(looked_at) as seen:
        looked_at(batch[0])
    for address in ("inner.layers.0.attention", "inner.layers.1.attention"):
        exactly(seen.weights(address), spy[address][0])


# --- several at once -----------------------------------------------------------------------------------------


@FAMILIES
def test_two_looks_in_two_threads_do_not_meet(family, translator):
    looked_at = translator(family)
    texts = ["abc", "ghgh lk"]
    alone = {}
    for text in texts:
        with regard.look(looked_at) as seen:
            looked_at.translate(text, WAYS["beam"])
        alone[text] = seen.weights(CROSS[family])
    together: dict[str, Any] = {}
    barrier = threading.Barrier(2, timeout=30)

    def run(text: str) -> None:
        with regard.look(looked_at) as seen:
            barrier.wait()
            for _ in range(4):
                looked_at.translate(text, WAYS["beam"])
        together[text] = seen

    threads = [threading.Thread(target=run, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert touched(looked_at.model) == 0
    for text in texts:
        assert [run.predictions[0].source for run in together[text].runs] == [text] * 4
        for run in range(4):
            assert torch.equal(together[text].weights(CROSS[family], run=run), alone[text])


def test_a_look_does_not_see_other_threads(model, batch):
    looked_at = model("transformer")
    with regard.look(looked_at) as seen:
        thread = threading.Thread(target=looked_at, args=batch)
        thread.start()
        thread.join()
    assert seen.runs == []


@FAMILIES
def test_nested_looks_see_the_same(family, translator):
    looked_at = translator(family)
    with regard.look(looked_at) as outer:
        looked_at.translate("abc")
        with regard.look(looked_at, [CROSS[family]]) as inner:
            looked_at.translate("gh")
        looked_at.translate("kk")
    assert (len(outer.runs), len(inner.runs)) == (3, 1)
    assert torch.equal(outer.weights(CROSS[family], run=1), inner.weights(CROSS[family]))


def test_recomputation_is_not_recorded(model, batch):
    class Checkpointed(nn.Module):
        def __init__(self, encoder: Any) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, source: Tokens) -> Tensor:
            return checkpoint(self.encoder, source, use_reentrant=False)

    looked_at = Checkpointed(model("transformer").encoder)
    with spied(looked_at) as spy, regard.look(looked_at) as seen:
        looked_at(batch[0]).square().sum().backward()
    assert len(spy["encoder.layers.0.attention"]) == 2, "checkpointing has to have computed it again"
    assert len(seen.runs) == 1
    assert [len(calls) for calls in seen.runs[0].calls.values()] == [1, 1]
