from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.layers import ChoCell, ResetAfterCell, TanhCell, Tokens
from regard.models import Cho, ChoConfig


def tiny(**changes: Any) -> ChoConfig:
    sizes: dict[str, Any] = {
        "source_vocabulary": 11,
        "target_vocabulary": 9,
        "embedding_width": 4,
        "hidden_width": 5,
        "maxout_width": 3,
    }
    return ChoConfig(**(sizes | changes))


@pytest.fixture
def build(seeded, randomize):
    return lambda **changes: randomize(Cho(tiny(**changes))).double().eval()


def test_the_defaults_are_the_papers_sizes_as_recalled():
    config = ChoConfig(source_vocabulary=15_000, target_vocabulary=15_000)
    assert (config.embedding_width, config.hidden_width, config.maxout_width, config.cell) == (100, 1000, 500, "gru")


@pytest.mark.parametrize(
    ("cell", "encoder", "decoder"),
    [("gru", ChoCell, ResetAfterCell), ("gru_after", ResetAfterCell, ResetAfterCell), ("tanh", TanhCell, TanhCell)],
)
def test_each_choice_has_its_cells(cell, encoder, decoder, seeded):
    model = Cho(tiny(cell=cell))
    assert type(model.encoder.cell) is encoder
    assert type(model.decoder.cell) is decoder


@pytest.mark.parametrize("start", ["paper", "standard"])
@pytest.mark.parametrize("cell", ["gru", "gru_after", "tanh"])
def test_recurrent_matrices_start_orthogonal(start, cell, seeded):
    model = Cho(tiny(initialization=start, cell=cell))
    for part in (model.encoder.cell, model.decoder.cell):
        for matrix in (block for layer in part.recurrent for block in layer.weight.split(5)):
            torch.testing.assert_close(matrix @ matrix.T, torch.eye(5))


def test_the_papers_first_weights(seeded):
    model = Cho(tiny(initialization="paper", hidden_width=50, embedding_width=40, maxout_width=30))
    recurrent = {layer.weight for part in (model.encoder.cell, model.decoder.cell) for layer in part.recurrent}
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif not any(parameter is matrix for matrix in recurrent):
            assert parameter.std().item() == pytest.approx(0.01, rel=0.15), name


@pytest.mark.parametrize("cell", ["gru", "gru_after", "tanh"])
def test_the_summary_enters_every_step_and_the_output(cell, build, sentences):
    """Not only the first state: fed once, it would be Sutskever's design."""
    model = build(cell=cell)
    state = model.start(sentences([6, 3], 11))
    _, state = model.step(torch.tensor([1, 1]), state)
    word = torch.tensor([4, 5])
    plain, after = model.step(word, state)
    for part in ("context", "readout"):
        assert getattr(state, part).any()
        without = dict.fromkeys((part,), torch.zeros_like(getattr(state, part)))
        changed, moved = model.step(word, type(state)(**(vars(state) | without)))
        assert not torch.allclose(changed, plain)
        assert torch.allclose(moved.hidden, after.hidden) == (part == "readout")


def test_the_summary_is_taken_once_per_sentence(build, sentences):
    model, taken = build(), []
    model.decoder.context.register_forward_hook(lambda *_: taken.append("context"))
    model.decoder.readout_context.register_forward_hook(lambda *_: taken.append("readout"))
    model(sentences([6, 3], 11), sentences([4, 4], 9))
    state = model.start(sentences([6, 3], 11))
    for _ in range(3):
        _, state = model.step(torch.tensor([3, 3]), state)
    assert taken == ["context", "readout"] * 2


def test_the_output_reads_the_state_after_the_word(build, sentences):
    """h'_t, which has read y_{t-1}; Bahdanau's output reads the state before."""
    model = build()
    decoder, before = model.decoder, model.start(sentences([6, 3], 11))
    logits, after = model.step(torch.tensor([4, 5]), before)
    embedded = decoder.embedding(torch.tensor([4, 5]))

    def output(hidden):
        pairs = decoder.readout(torch.cat((hidden, embedded), dim=-1)) + before.readout
        return decoder.output(pairs.view(2, -1, 2).amax(dim=-1))

    torch.testing.assert_close(output(after.hidden), logits, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(output(before.hidden), logits)


def test_the_whole_source_passes_through_one_vector(build, sentences):
    """Two sources with the same c are the same source to the decoder, however long they are."""
    model = build()
    state = model.start(sentences([6, 3], 11))
    assert {tuple(part.shape) for part in (state.hidden, state.context, state.readout)} == {(2, 5), (2, 15), (2, 6)}


def test_nothing_was_looked_at(build, sentences):
    model, source = build(), sentences([6, 3], 11)
    _, state = model.step(torch.tensor([1, 1]), model.start(source))
    alignment = model.alignment(state)
    assert alignment.dtype == torch.float32
    assert torch.equal(alignment, torch.zeros(2, 6))


def test_looking_at_it_says_that_there_is_nothing_to_see(build):
    with pytest.raises(InputError, match="there is no attention"), regard.look(build()):
        pass


def test_targets_have_no_longest_length(build):
    assert build().maximum_target_length is None


def test_a_misspelt_cell_is_refused():
    with pytest.raises(InputError, match="cell"):
        tiny(cell="lstm")


def test_bfloat16_weights_decode(build):
    model = build().bfloat16()
    logits, state = model.step(torch.tensor([1]), model.start(Tokens.pad([[3, 4, 2]])))
    assert logits.dtype == state.hidden.dtype == torch.bfloat16
