"""Show and Tell, and Show, Attend and Tell, against their equations written out word by word; and their configs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention.alignments import MEAN
from regard.errors import InputError
from regard.layers import Images, Tokens
from regard.models import ShowAndTell, ShowAndTellConfig, ShowAttendAndTell, ShowAttendAndTellConfig

SIZES: dict[str, Any] = {
    "target_vocabulary": 9,
    "image_height": 8,
    "image_width": 16,
    "image_channels": 1,
    "frames": 2,
    "convolutions": (8,),
    "feature_width": 5,
    "embedding_width": 4,
    "hidden_width": 6,
    "dropout": 0.0,
}
TARGET = Tokens.pad([[1, 3, 4], [1, 5]])


def images() -> Images:
    drawn = np.random.default_rng(1)
    return Images.of([drawn.integers(0, 256, (count, 8, 16, 1), dtype=np.uint8) for count in (1, 2)])


def annotated(model: Any, frames: Tensor) -> Tensor:
    """The annotations of one row's real frames (F, 1, Y, X), place by place, row by row through the strip: (L, D)."""
    encoder = model.encoder
    features = encoder.blocks(frames.double() / 127.5 - 1)
    rows, columns = encoder.grid
    return torch.stack(
        [
            torch.relu(
                encoder.output.weight
                @ (features[f, :, y, x] + encoder.row.weight[y] + encoder.column.weight[x] + encoder.frame.weight[f])
                + encoder.output.bias
            )
            for y in range(rows)
            for f in range(len(frames))
            for x in range(columns)
        ]
    )


def lstm(cell: Any, x: Tensor, hidden: Tensor, memory: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
    gates = cell.input(x) + cell.recurrent.weight @ hidden
    if context is not None:
        gates = gates + cell.context.weight @ context
    i, f, g, o = gates.chunk(4)
    memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(memory), memory


def rows(source: Images) -> list[Tensor]:
    return [pixels[valid] for pixels, valid in zip(source.pixels, source.valid, strict=True)]


def test_show_and_tell_is_its_equations(randomize):
    model = randomize(ShowAndTell(ShowAndTellConfig(**SIZES))).double().eval()
    told = model(images(), TARGET).logits
    for row, frames in enumerate(rows(images())):
        image = model.image(annotated(model, frames).mean(dim=0))
        zeros = torch.zeros(6, dtype=torch.float64)
        state = lstm(model.lstm.cells[0], image, zeros, zeros)  # x_{-1}, whose output is thrown away
        for place, word in enumerate(TARGET.ids[row][TARGET.valid[row]]):
            state = lstm(model.lstm.cells[0], model.embedding.weight[word], *state)
            torch.testing.assert_close(told[row, place], model.output(state[0]))


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_show_attend_and_tell_is_its_equations(randomize, attention):
    config = ShowAttendAndTellConfig(**SIZES, attention_width=7, attention=attention)
    model = randomize(ShowAttendAndTell(config)).double().eval()
    told = model(images(), TARGET, attended=True)
    layer = model.attention
    for row, frames in enumerate(rows(images())):
        annotations = annotated(model, frames)
        mean = annotations.mean(dim=0)
        hidden, memory = torch.tanh(model.initial_hidden(mean)), torch.tanh(model.initial_memory(mean))
        real = told.places[row]
        assert int(real.sum()) == len(annotations)
        for place, word in enumerate(TARGET.ids[row][TARGET.valid[row]]):
            energy = torch.stack(
                [layer.attention.score.weight @ torch.tanh(layer.query(hidden) + layer.key(a)) for a in annotations]
            )
            alpha = energy.softmax(dim=0)
            torch.testing.assert_close(told.weights[row, place, real], alpha)
            looked = alpha @ annotations if attention == "soft" else annotations[alpha.argmax()]
            context = torch.sigmoid(model.gate(hidden)) * looked  # with the state before the step, as the alignment
            embedded = model.embedding.weight[word]
            hidden, memory = lstm(model.cell, embedded, hidden, memory, context)
            expected = model.output(embedded + model.from_hidden(hidden) + model.from_context(context))
            torch.testing.assert_close(told.logits[row, place], expected)


def test_what_is_drawn_in_training_is_what_was_looked_at(randomize):
    """Followed by the record: the context of each step is the annotation of the place that `sampled` tells."""
    from regard.inspection import look

    model = randomize(ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES, attention_width=7, attention="hard"))).train()
    torch.manual_seed(2)
    with look(model) as seen:
        told = model(images(), TARGET, attended=True)
    weights = seen.weights("attention")[:, 0]
    assert told.sampled is not None
    for row in range(2):
        for place in range(3):
            if told.sampled.valid[row, place]:
                assert weights[row, place, told.sampled.places[row, place]] == 1
            else:
                torch.testing.assert_close(weights[row, place], told.weights[row, place])


def test_a_caption_takes_the_mean_at_every_word_or_at_none():
    model = ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES, attention="hard", mean_share=0.5)).train()
    torch.manual_seed(0)
    taken = model.means(400, torch.device("cpu"))[MEAN]
    assert taken.shape == (400, 1, 1)
    assert 0.4 < taken.float().mean() < 0.6
    assert model.eval().means(4, torch.device("cpu")) == {}


def test_the_first_alignment_is_known_before_the_first_word(randomize):
    """B-16: what looks at the image is the state of the decoder, so it is no self-attention."""
    model = randomize(ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES, attention_width=7))).eval()
    other = Tokens(torch.full_like(TARGET.ids, 7), TARGET.valid)
    first, second = (model(images(), target, attended=True).weights for target in (TARGET, other))
    torch.testing.assert_close(first[:, 0], second[:, 0])
    assert not torch.allclose(first[:, 1], second[:, 1])


def test_a_small_network_tells_left_from_right():
    """Every place is told where it is: two images that are mirrored do not have mirrored annotations."""
    torch.manual_seed(0)
    model = ShowAttendAndTell(ShowAttendAndTellConfig(**SIZES)).eval()
    blank = Images.of([np.zeros((1, 8, 16, 1), np.uint8)])
    annotations, _ = model.encoder(blank)
    assert not torch.allclose(annotations[0, 1], annotations[0, 2])


@pytest.mark.parametrize("family", [ShowAndTellConfig, ShowAttendAndTellConfig])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"image_height": 9}, "multiple of 2"),
        ({"convolutions": ()}, "convolutions"),
        ({"frames": 0}, "frames"),
        ({"dropout": 1.0}, "dropout"),
        ({"end_id": 9}, "end_id"),
    ],
)
def test_a_wrong_setting_is_named(family, wrong, message):
    with pytest.raises(InputError, match=message):
        family(**(SIZES | wrong))


def test_attention_is_one_of_two():
    with pytest.raises(InputError, match="attention"):
        ShowAttendAndTellConfig(**SIZES, attention="firm")


def test_images_of_another_size_are_refused():
    model = ShowAndTell(ShowAndTellConfig(**SIZES))
    with pytest.raises(ValueError, match="3 frames"):
        model.start(Images.of([np.zeros((3, 8, 16, 1), np.uint8)]))


def test_maps_are_of_the_papers_size():
    """Four halvings make 14 x 14 places of 224 x 224 pixels, as in the paper."""
    with torch.device("meta"):
        assert ShowAttendAndTell(ShowAttendAndTellConfig(target_vocabulary=10)).grid == (14, 14)
