"""The contract of captioners: every such family in `MODELS` passes the same battery. A variant joins by one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.generation import GenerationSettings, search
from regard.inspection import look
from regard.layers import Images, Tokens, join
from regard.models import MODELS, ShowAndTellConfig, ShowAttendAndTellConfig
from regard.testing import check_model

SIZES: dict[str, Any] = {
    "target_vocabulary": 11,
    "image_height": 16,
    "image_width": 24,
    "image_channels": 3,
    "frames": 3,
    "convolutions": (8, 16),
    "feature_width": 12,
    "embedding_width": 6,
    "hidden_width": 10,
    "dropout": 0.3,
}
PLACES = (4, 6)
VARIANTS = {
    "show_and_tell": ShowAndTellConfig(**SIZES),
    "show_attend_and_tell": ShowAttendAndTellConfig(**SIZES, attention_width=7),
    "show_attend_and_tell hard": ShowAttendAndTellConfig(**SIZES, attention_width=7, attention="hard"),
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture
def model(name, randomize):
    config = VARIANTS[name]
    return randomize(MODELS[config.model_type].model(config)).eval()


def images(*frames: int, seed: int = 0) -> Images:
    drawn = np.random.default_rng(seed)
    return Images.of([drawn.integers(0, 256, (count, 16, 24, 3), dtype=np.uint8) for count in frames])


TARGET = Tokens.pad([[1, 3, 4, 5], [1, 6], [1, 7, 8]])


def test_every_captioner_has_a_variant():
    families = {name for name, family in MODELS.items() if family.interface == "captioner"}
    assert families == {config.model_type for config in VARIANTS.values()}


@every_variant
def test_contract(name):
    assert check_model(VARIANTS[name])


@every_variant
def test_forward_agrees_with_stepping(name, model):
    source = images(1, 3, 2)
    told = model(source, TARGET, attended=True)
    state = model.start(source)
    assert not model.alignment(state).any()
    for step in range(TARGET.ids.shape[1]):
        logits, state = model.step(TARGET.ids[:, step], state)
        real = TARGET.valid[:, step]
        torch.testing.assert_close(logits[real], told.logits[real, step])
        if model.has_alignment:
            alignment = model.alignment(state)
            torch.testing.assert_close(alignment.sum(dim=1), torch.ones(3))
            assert torch.equal(alignment.argmax(dim=1)[real], told.weights[real, step].argmax(dim=1))


@every_variant
def test_batch_and_frames_of_padding_change_nothing(name, model):
    together = model(images(1, 3, 2), TARGET).logits
    for row in range(3):
        source = images(1, 3, 2).select(torch.tensor([row]))
        frames = int(source.lengths)
        alone = Images(source.pixels[:, :frames], source.valid[:, :frames])
        length = int(TARGET.lengths[row])
        found = model(alone, TARGET.select(torch.tensor([row]))).logits
        torch.testing.assert_close(found[0, :length], together[row, :length])
    noisy = images(1, 3, 2)
    noisy.pixels[~noisy.valid] = 200
    torch.testing.assert_close(model(noisy, TARGET).logits, together)


@every_variant
def test_beam_search_keeps_to_the_images_of_its_hypotheses(name, model):
    source = images(1, 2, 3)
    settings = GenerationSettings(beam=3, n_best=2, maximum_length=5)
    together = search(model, source, settings)
    for row in range(3):
        alone = search(model, source.select(torch.tensor([row])), settings)[0]
        assert [found.tokens for found in alone] == [found.tokens for found in together[row]]
        assert alone[0].log_probability == pytest.approx(together[row][0].log_probability, abs=1e-4)


@every_variant
def test_rows_join_and_leave_at_any_length(name, model):
    """Images of other numbers of frames, some steps on, branched or before their first, go on together as each alone."""
    ahead = model.start(images(1, 3))
    for token in (1, 3):
        _, ahead = model.step(torch.tensor([token, token]), ahead)
    branched = model.step(torch.tensor([1]), model.start(images(2, seed=1)))[1].reorder(torch.tensor([0, 0]))
    apart = [ahead, branched]
    together = join(apart)
    assert (together.rows, together.width, together.longest) == (4, 1, 2)
    ids = torch.tensor([4, 5, 6, 7])
    for _ in range(2):
        found, together = model.step(ids, together)
        steps = [model.step(part, state) for part, state in zip(ids.split(2), apart, strict=True)]
        apart = [state for _, state in steps]
        torch.testing.assert_close(found, torch.cat([logits for logits, _ in steps]))
    alignment = model.alignment(together)
    for state, part in zip(apart, alignment.split(2), strict=True):
        alone = model.alignment(state)
        torch.testing.assert_close(part[:, : alone.shape[1]], alone)
        assert not part[:, alone.shape[1] :].any()
    found, _ = model.step(ids[:2], together.select(torch.tensor([3, 0])))
    wanted = [
        model.step(ids[:1], apart[1].select(torch.tensor([1])))[0],
        model.step(ids[1:2], apart[0].select(torch.tensor([0])))[0],
    ]
    torch.testing.assert_close(found, torch.cat(wanted))


@every_variant
def test_samples_of_one_image_are_about_that_image(name, model):
    settings = GenerationSettings(sample=True, n_best=2, maximum_length=4, seed=3)
    found = search(model, images(1, 2), settings)
    assert [len(each) for each in found] == [2, 2]


@pytest.mark.parametrize("name", [name for name in VARIANTS if "attend" in name])
def test_looking_changes_nothing_and_sees_the_weights(name, model):
    source = images(1, 3, 2)
    plain = model(source, TARGET).logits
    with look(model) as seen:
        assert torch.equal(model(source, TARGET).logits, plain)
    weights = seen.weights("attention")
    told = model(source, TARGET, attended=True).weights
    assert weights.shape == (3, 1, 4, PLACES[0] * PLACES[1] * 3)
    if model.config.attention == "soft":
        torch.testing.assert_close(weights[:, 0], told)
    else:
        assert torch.equal(weights[:, 0].argmax(dim=-1), told.argmax(dim=-1))
        assert set(weights.unique().tolist()) == {0.0, 1.0}
