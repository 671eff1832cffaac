from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import regard
from regard.attention import Additive, Dot, Local, Location
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import Luong, LuongConfig

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def tiny(**changes: Any) -> LuongConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 11,
        "target_vocabulary": 9,
        "embedding_width": 4,
        "hidden_width": 5,
        "layers": 2,
        "dropout": 0.0,
    }
    return LuongConfig(**(sizes | changes))


@pytest.fixture
def build(seeded, randomize):
    return lambda **changes: randomize(Luong(tiny(**changes))).double().eval()


def test_b46_the_defaults_are_the_papers_sizes():
    config = LuongConfig(source_vocabulary=50_000, target_vocabulary=50_000)
    assert (config.layers, config.hidden_width, config.embedding_width) == (4, 1000, 1000)
    assert (config.window, config.dropout) == (10, 0.2)
    assert config.input_feeding
    assert config.reverse_source


@pytest.mark.parametrize("attention", ["local_m", "local_p"])
def test_a_location_score_looks_at_all_of_the_source(attention):
    with pytest.raises(
        InputError, match=r"score is 'location' but must be dot, general or concat .* attention: global"
    ):
        tiny(score="location", attention=attention)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"maximum_source": 0}, "maximum_source is 0"),
        ({"layers": 0}, "layers is 0"),
        ({"attention": "local"}, "attention"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        tiny(**changes)


def test_b47_there_is_no_cosine_among_the_scores():
    """A lecture has the paper try a cosine and a feed-forward net; it tries these four, and the cosine is another paper's."""
    with pytest.raises(InputError, match="score is 'cosine'; choose 'dot' or 'general' or 'concat' or 'location'"):
        tiny(score="cosine")


@pytest.mark.parametrize(
    ("score", "kind", "names"),
    [
        ("dot", Dot, {}),
        ("general", Dot, {"key.weight": (5, 5)}),
        ("concat", Additive, {"query.weight": (5, 5), "key.weight": (5, 5), "attention.score.weight": (5,)}),
        ("location", Location, {"attention.score.weight": (30, 5)}),
    ],
)
def test_each_score_has_its_own_matrices(score, kind, names, seeded):
    layer = Luong(tiny(score=score, maximum_source=30)).decoder.attention
    assert {name: tuple(tensor.shape) for name, tensor in layer.state_dict().items()} == names
    assert isinstance(layer.attention.score, kind)


def test_each_attention_has_its_window(seeded):
    aligned = {kind: Luong(tiny(attention=kind, window=3)).decoder for kind in ("global", "local_m", "local_p")}
    alignments = {kind: decoder.attention.attention.alignment for kind, decoder in aligned.items()}
    assert not isinstance(alignments["global"], Local)
    assert (alignments["local_m"].window, alignments["local_m"].gaussian) == (3, False)
    assert (alignments["local_p"].window, alignments["local_p"].gaussian) == (3, True)
    assert [decoder.centre is not None for decoder in aligned.values()] == [False, False, True]


def test_the_papers_first_weights(seeded):
    model = Luong(tiny(initialization="paper", hidden_width=20, score="concat"))
    drawn = torch.cat([parameter.flatten() for parameter in model.parameters()])
    assert drawn.abs().max() <= 0.1
    assert drawn.std().item() == pytest.approx(0.2 / 12**0.5, rel=0.03)
    assert all(parameter.any() for parameter in model.parameters())


def test_the_state_after_the_word_scores(build, sentences):
    """h_t, which has read y_{t-1}: another word moves the same step's alignment. Bahdanau's is settled before the word."""
    model = build()
    state = model.start(sentences([6, 3], 11))
    _, one = model.step(torch.tensor([3, 3]), state)
    _, other = model.step(torch.tensor([4, 5]), state)
    assert (model.alignment(one) - model.alignment(other)).abs().amax(dim=1).min() > 1e-6
    torch.testing.assert_close(one.query[:, 0], one.recurrent[-1][0], **EXACT)


def test_what_is_fed_is_the_attentional_state_of_the_step_before(build, sentences):
    model = build()
    first = model.start(sentences([6, 3], 11))
    assert not first.attentional.any(), "zeros at the first step"
    logits, second = model.step(torch.tensor([1, 1]), first)
    torch.testing.assert_close(model.decoder.output(second.attentional), logits, **EXACT)
    fed, _ = model.step(torch.tensor([3, 4]), second)
    forgotten = replace(second, attentional=torch.zeros_like(second.attentional))
    unfed, _ = model.step(torch.tensor([3, 4]), forgotten)
    assert not torch.allclose(fed, unfed)


def test_without_feeding_nothing_is_fed(build, sentences):
    model = build(input_feeding=False)
    _, state = model.step(torch.tensor([1, 1]), model.start(sentences([6, 3], 11)))
    expected, _ = model.step(torch.tensor([3, 4]), state)
    found, _ = model.step(torch.tensor([3, 4]), replace(state, attentional=torch.full_like(state.attentional, 7.0)))
    assert torch.equal(found, expected)


def test_without_feeding_a_whole_target_is_one_call_of_attention(build, sentences):
    calls = {}
    for feeding in (True, False):
        model, seen = build(input_feeding=feeding), []
        model.decoder.attention.attention.register_forward_hook(lambda _, i, o, seen=seen: seen.append(o.shape[2]))
        model(sentences([6, 3], 11), sentences([4, 4], 9))
        calls[feeding] = seen
    assert calls == {True: [1, 1, 1, 1], False: [4]}


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_was_seen_stands_beside_the_words(feeding, side, build, sentences):
    """Row l of the recorded weights belongs to slot l of the target, whichever side is padded."""
    model = build(attention="local_m", window=1, input_feeding=feeding)
    source, target = sentences([6, 6], 11), sentences([5, 2], 9, side=side, start=1)
    with regard.look(model) as seen:
        model(source, target)
    weights = seen.weights("decoder.attention")[:, 0]
    for row in range(2):
        for t, at in enumerate(target.valid[row].nonzero().flatten()):
            assert weights[row, at].nonzero().flatten().tolist() == [s for s in (t - 1, t, t + 1) if s >= 0]


@pytest.mark.parametrize("score", ["dot", "general", "concat"])
def test_source_states_are_projected_once_per_sentence(score, build, sentences):
    model, projected = build(score=score), []
    model.decoder.attention.key.register_forward_hook(lambda *_: projected.append(1))
    model(sentences([6, 3], 11), sentences([4, 4], 9))
    state = model.start(sentences([6, 3], 11))
    for _ in range(3):
        _, state = model.step(torch.tensor([3, 3]), state)
    assert len(projected) == 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_source_may_be_read_from_its_end(side, build, sentences):
    """Reversed, the states are those of reading the words turned round, put back beside their words."""
    model = build(reverse_source=True)
    forwards = build(reverse_source=False)
    forwards.load_state_dict(model.state_dict())
    source = sentences([6, 3], 11, side=side)
    states, last = model.encoder(source)
    for row in range(2):
        words = source.ids[row][source.valid[row]].flip(0)
        expected, ends = forwards.encoder(Tokens.pad([words.tolist()]))
        torch.testing.assert_close(states[row][source.valid[row]], expected[0].flip(0), **EXACT)
        for mine, theirs in zip(last, ends, strict=True):
            torch.testing.assert_close(mine[0][row], theirs[0][0], **EXACT)
            torch.testing.assert_close(mine[1][row], theirs[1][0], **EXACT)


def test_every_layer_starts_from_the_encoders_same_layer(build, sentences):
    model, source = build(layers=3), sentences([6, 3], 11)
    _, last = model.encoder(source)
    torch.testing.assert_close(model.start(source).recurrent, last, **EXACT)


def alignments(model, source, steps):
    state, seen = model.start(source), []
    for _ in range(steps):
        _, state = model.step(torch.full((len(source),), 3), state)
        seen.append(model.alignment(state))
    return torch.stack(seen, dim=1), state


@pytest.mark.parametrize("side", ["left", "right"])
def test_local_m_looks_around_the_targets_own_place(side, build, sentences):
    """Place t of the source for target token t, both counted from 0 at the first real token."""
    lengths, steps = [6, 3], 6
    source = sentences(lengths, 11, side=side)
    seen, _ = alignments(build(attention="local_m", window=1), source, steps)
    for row, length in enumerate(lengths):
        for t in range(steps):
            found = seen[row, t][source.valid[row]].nonzero().flatten().tolist()
            assert found == [s for s in (t - 1, t, t + 1) if s < length and s >= 0]
            if found:  # clipped at the ends, and a distribution inside
                assert seen[row, t].sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_local_p_looks_around_a_place_in_its_own_source(side, build, sentences):
    """p_t = S sigmoid(vp . tanh(Wp h_t)) with S the tokens of that row, padding not counted."""
    lengths = [6, 3]
    source = sentences(lengths, 11, side=side)
    model = build(attention="local_p", window=2)
    _, state = alignments(model, source, 2)
    centre = model.decoder.centre
    hidden = state.recurrent[-1][0]
    for row, length in enumerate(lengths):
        share = torch.sigmoid(centre.output.weight[0] @ torch.tanh(centre.hidden.weight @ hidden[row]))
        torch.testing.assert_close(state.centre[row, 0], length * share, **EXACT)
    weights = model.alignment(state)
    assert (weights.sum(dim=1) < 1).all(), "the Gaussian's product is not normalised again"


def test_the_gradient_reaches_the_predicted_place(build, sentences):
    """Through the Gaussian alone: without it, local-p could not learn where to look."""
    for gaussian in (True, False):
        model = build(attention="local_p", window=3)
        model.decoder.attention.attention.alignment.gaussian = gaussian
        model(sentences([6, 3], 11), sentences([4, 4], 9)).square().sum().backward()
        gradients = [parameter.grad for parameter in model.decoder.centre.parameters()]
        assert all(gradient is not None and gradient.any() for gradient in gradients) == gaussian
        assert any(gradient is not None and gradient.any() for gradient in gradients) == gaussian


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_source_longer_than_the_location_table_is_refused(side, build, sentences):
    model = build(score="location", maximum_source=5)
    with pytest.raises(
        InputError, match=r"source has 6 tokens .* for 5; .* model\.maximum_source, or another model\.score"
    ):
        model.start(sentences([6, 3], 11, side=side))
    padded = sentences([5, 3], 11, side=side)
    extra = torch.zeros(2, 4, dtype=torch.long)
    both = [torch.cat((part, extra.to(part.dtype)), dim=1) for part in (padded.ids, padded.valid)]
    _, narrow = model.step(torch.tensor([1, 1]), model.start(padded))
    _, wide = model.step(torch.tensor([1, 1]), model.start(Tokens(*both)))  # padding needs no places
    torch.testing.assert_close(model.alignment(wide)[:, :5], model.alignment(narrow), **EXACT)


def test_a_location_score_does_not_look_at_what_is_there(build, sentences):
    """Other words at the same places, the decoder's state put back: the weights stay."""
    model = build(score="location", maximum_source=8)
    one, other = (model.start(sentences([6, 3], 11, seed=seed)) for seed in (1, 2))
    swapped = replace(one, memory=other.memory)
    found = [model.alignment(model.step(torch.tensor([3, 4]), state)[1]) for state in (one, swapped)]
    torch.testing.assert_close(*found, **EXACT)


def test_targets_have_no_longest_length(build):
    assert build().maximum_target_length is None
