"""Models with something inside them changed: what follows is what the equations say, and nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.inspection.editing import MeanHeads, ScaleHeads, SetHeads, SetOutput, SetWeights, change

transformers: Any = pytest.importorskip("transformers", reason="changes models of transformers, which is not installed")

IDS = torch.randint(5, 50, (2, 7), generator=torch.Generator().manual_seed(1))
SMALL: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 40}
ADDRESS = {
    "bert": "encoder.layer.1.attention.self",
    "llama": "layers.1.self_attn",
    "torch": "layers.1.self_attn",
    "ours": "layers.1.attention",
}


@pytest.fixture(params=ADDRESS)
def subject(request, model, batch) -> tuple[str, Any, Any]:
    """A model of each kind: its name, itself, and a function that runs it."""
    torch.manual_seed(3)
    name = request.param
    if name == "ours":
        made = model("transformer").encoder
        return name, made, lambda: made(batch[0])
    if name == "torch":
        made = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 40, batch_first=True), 2).eval()
        x = torch.randn(2, 7, 32)
        return name, made, lambda: made(x)
    if name == "bert":
        made = transformers.BertModel(transformers.BertConfig(vocab_size=50, **SMALL), add_pooling_layer=False)
    else:
        made = transformers.LlamaModel(transformers.LlamaConfig(vocab_size=50, num_key_value_heads=2, **SMALL))
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    made.eval()
    return name, made, lambda: made(IDS)[0]


def run(work: Any) -> Tensor:
    with torch.no_grad():
        return work()


def test_changing_nothing_changes_nothing(subject):
    name, model, work = subject
    alone = run(work)
    with change(model, SetWeights(address=ADDRESS[name], to=lambda weights: weights)):
        torch.testing.assert_close(run(work), alone, atol=1e-5, rtol=1e-4)
    with change(model, ScaleHeads(address=ADDRESS[name], factor=1.0)):
        torch.testing.assert_close(run(work), alone, atol=1e-5, rtol=1e-4)
    assert torch.equal(run(work), alone)


def test_a_silent_layer_is_one_without_values(subject):
    """With every head silent the output projection has nothing but its bias to give."""
    name, model, work = subject
    with change(model, ScaleHeads(address=ADDRESS[name])):
        silent = run(work)
    with change(model, *(ScaleHeads(address=ADDRESS[name], heads=[head]) for head in range(heads_of(model, work)))):
        torch.testing.assert_close(run(work), silent)
    with change(model, SetWeights(address=ADDRESS[name], to=torch.zeros(1, 1, 1, 1))):
        torch.testing.assert_close(run(work), silent)
    assert not torch.allclose(run(work), silent, atol=1e-3)


def heads_of(model: Any, work: Any) -> int:
    with regard.look(model) as seen:
        run(work)
    return next(iter(seen.runs[-1].calls.values()))[0].shape[1]


def test_heads_outputs_of_another_input_are_put_in(subject):
    """Patching every head with the outputs of the same input changes nothing; one head's alone is that head's."""
    name, model, work = subject
    alone = run(work)
    with torch.no_grad(), regard.look(model, values=True) as seen:
        work()
    outputs = seen.head_outputs(ADDRESS[name])
    with change(model, SetHeads(address=ADDRESS[name], to=outputs)):
        torch.testing.assert_close(run(work), alone, atol=1e-5, rtol=1e-4)
    changed = outputs.clone()
    changed[:, 1, 2] = 0
    with change(model, SetHeads(address=ADDRESS[name], to=changed)):
        whole = run(work)
    with change(model, SetHeads(address=ADDRESS[name], to=torch.zeros(()), heads=[1], positions=[2])):
        torch.testing.assert_close(run(work), whole, atol=1e-5, rtol=1e-4)


def test_weights_moved_elsewhere(subject):
    """All attention of one head to the first key: its output is the first value everywhere."""
    name, model, work = subject

    def first(weights: Tensor) -> Tensor:
        return torch.zeros_like(weights).index_fill(-1, torch.tensor([0]), 1.0)

    with torch.no_grad(), regard.look(model, values=True) as seen:
        work()
    address = ADDRESS[name]
    kept = seen.runs[-1].calls[address][0].called.value
    assert kept is not None
    value = kept.read("value")
    value = value.repeat_interleave(seen.head_outputs(address).shape[1] // value.shape[1], dim=1)
    expected = seen.head_outputs(address).clone()
    expected[:, 1] = value[:, 1, :1]
    with change(model, SetHeads(address=address, to=expected)):
        want = run(work)
    with change(model, SetWeights(address=address, to=first, heads=[1])):
        torch.testing.assert_close(run(work), want, atol=1e-5, rtol=1e-4)


def test_the_mean_of_a_head_says_the_same_everywhere(subject):
    name, model, work = subject
    with torch.no_grad(), regard.look(model, values=True) as seen:
        work()
    outputs = seen.head_outputs(ADDRESS[name])
    mean = outputs.clone()
    mean[:, 2 % outputs.shape[1]] = outputs[:, 2 % outputs.shape[1]].mean(dim=(0, 1))
    with change(model, SetHeads(address=ADDRESS[name], to=mean)):
        want = run(work)
    with change(model, MeanHeads(address=ADDRESS[name], heads=[2 % outputs.shape[1]])):
        torch.testing.assert_close(run(work), want, atol=1e-5, rtol=1e-4)


def test_a_look_within_a_change_sees_what_follows_from_it(subject):
    name, model, work = subject
    first = ADDRESS[name].replace("1", "0")
    with regard.look(model) as before:
        run(work)
    with change(model, ScaleHeads(address=first)), regard.look(model) as after:
        run(work)
    torch.testing.assert_close(before.weights(first), after.weights(first), atol=1e-6, rtol=1e-5)
    assert not torch.allclose(before.weights(ADDRESS[name]), after.weights(ADDRESS[name]), atol=1e-3)


def test_hidden_states_are_set(subject):
    name, model, work = subject
    layer = {"bert": "encoder.layer.0", "llama": "layers.0", "torch": "layers.0", "ours": "layers.0"}[name]
    alone = run(work)
    with torch.no_grad(), regard.look(model, hidden=[layer]) as seen:
        work()
    kept = seen.hidden(layer)
    with change(model, SetOutput(address=layer, to=kept)):
        torch.testing.assert_close(run(work), alone)
    with change(model, SetOutput(address=layer, to=torch.zeros(()), positions=[1])):
        once = run(work)
    changed = kept.clone()
    changed[:, 1] = 0
    with change(model, SetOutput(address=layer, to=changed)):
        assert torch.equal(run(work), once)
    assert torch.equal(run(work), alone)


def test_torchs_multi_head_attention_computed_by_hand():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=False, add_bias_kv=True, kdim=5, vdim=6).eval()
    query, key, value = torch.randn(3, 2, 8), torch.randn(4, 2, 5), torch.randn(4, 2, 6)
    alone, shown = layer(query, key, value)
    with change(layer, SetWeights(address="MultiheadAttention", to=lambda weights: weights)):
        again, weights = layer(query, key, value)
    torch.testing.assert_close(again, alone)
    torch.testing.assert_close(weights, shown)


@pytest.mark.parametrize("way", ["matmul", "bmm"])
def test_weights_that_a_module_laid_out_itself(way):
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
            weights = F.softmax(heads @ heads.mT, dim=-1)
            if way == "bmm":
                return torch.bmm(weights.view(-1, 5, 5), heads.reshape(-1, 5, 2)).view(-1, 2, 5, 2)
            return torch.matmul(weights, heads)

    model, x = Own(), torch.randn(3, 5, 4)
    alone = model(x)
    with change(model, ScaleHeads(address="Own", heads=[1], factor=3.0)):
        louder = model(x)
    torch.testing.assert_close(louder[:, 0], alone[:, 0])
    torch.testing.assert_close(louder[:, 1], alone[:, 1] * 3)
    with change(model, SetWeights(address="Own", to=torch.eye(5))):
        torch.testing.assert_close(model(x), x.unflatten(-1, (2, 2)).transpose(1, 2))


def test_a_recurrent_aligner_is_changed_at_every_step(model, batch):
    looked_at = model("bahdanau")
    with torch.no_grad(), regard.look(looked_at, values=True) as seen:
        looked_at(*batch)
    with change(looked_at, SetWeights(address="decoder.attention", to=lambda weights: torch.zeros_like(weights))):
        silent = run(lambda: looked_at(*batch))
    with change(looked_at, ScaleHeads(address="decoder.attention")):
        torch.testing.assert_close(run(lambda: looked_at(*batch)), silent)
    assert tuple(seen.head_outputs("decoder.attention").shape[1:3]) == (1, 6)


def test_translators_are_changed_too(translator):
    looked_at = translator("transformer")
    before = looked_at.translate("abc").text
    with change(looked_at, ScaleHeads(address="decoder.*.cross_attention")):
        texts = {looked_at.translate(text).text for text in ("abc", "ghgh", "kl")}
    assert len(texts) == 1, "without looking at the source, all answers are one"
    assert looked_at.translate("abc").text == before


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (ScaleHeads(address="layer.0"), "nothing in the model is called 'layer.0'"),
        (ScaleHeads(address="layers.0.self_attn", heads=[4]), r"heads \[4\] are outside 0 to 3"),
        (SetHeads(address="layers.0.self_attn", to=torch.ones(3, 9)), r"\(3, 9\) given, which does not fit"),
        (SetOutput(address="layers.0", to=torch.ones(1), positions=[7]), r"positions \[7\] are outside"),
        (ScaleHeads(address="layers.0.linear1"), "no attention of this name was called"),
        (ScaleHeads(address="layers.0.self_attn@2"), "no attention of this name was called"),
    ],
)
def test_what_cannot_be_changed_is_one_sentence(edit, message):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 40, batch_first=True), 2).eval()
    with pytest.raises(regard.InputError, match=message), change(model, edit):
        model(torch.randn(2, 7, 32))


@pytest.mark.slow
def test_a_compiled_model_cannot_be_changed():
    model: Any = torch.compile(nn.Linear(2, 2))
    edit = SetOutput(address="Linear", to=torch.ones(()))
    with pytest.raises(regard.InputError, match=r"torch\.compile"), change(model, edit):
        pass
