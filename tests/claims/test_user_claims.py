"""The experiments of claims 5.1 to 5.3 and 5.7 to 5.9, small: what they compute is what they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.claims.measuring import recut
from regard.errors import InputError
from regard.inspection.editing import SetHeads, change
from regard_claims.attention_as_explanation.attention_importance import AttentionImportance, kendall, signed_texts
from regard_claims.attention_sinks import first_token
from regard_claims.attention_sinks.first_token import FirstToken
from regard_claims.calibration.calibration import Calibration, best_temperature, expected_error, topical_texts
from regard_claims.pruned_heads import pruned_heads
from regard_claims.pruned_heads.pruned_heads import PrunedHeads
from regard_claims.shared import language_model
from regard_claims.vocabulary_and_data.inflected_words import InflectedWords, inflected
from regard_claims.wider_beams.unsure_words import UnsureWords

LENGTH, HEADS = 16, 2


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    """A file of lines of words."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{source} is {target}\n" for source, target in inflected(400, 3)))
    return str(path)


@pytest.fixture(scope="module")
def decoder(text):
    """A language model after a few updates, and stretches of held-out text."""
    sizes = {
        "width": 8,
        "heads": HEADS,
        "layers": 2,
        "feedforward_width": 16,
        "maximum_positions": LENGTH,
        "init_std": 0.5,
    }
    training = {"steps": 3, "batch_tokens": 64, "learning_rate": 1e-2}
    model = {"name": "decoder", "dropout": 0.0, **sizes}
    tokenizer = {"kind": "byte_bpe", "size": 300}
    settings = {"data": {}, "tokenizer": tokenizer, "length": LENGTH, "seed": 1, "training": training}
    with language_model(model, path=text, **settings) as (model, store):
        yield model, recut(store, LENGTH, 6)


def test_a_hidden_place_is_seen_by_none_after_it(decoder):
    model, stretches = decoder
    hidden = first_token._without(1)(torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None])
    assert hidden[2:, 1].tolist() == [0, 0]
    assert torch.allclose(hidden[2:].sum(dim=-1), torch.ones(2))
    assert hidden[1].tolist() == [0.5, 0.5, 0, 0]  # its own query sees it
    weights = first_token.weights_by_place(model, stretches, 2)
    assert sum(weights) == pytest.approx(1, abs=1e-5)
    whole = first_token.loss_without(model, stretches, None, 0)
    assert first_token.loss_without(model, stretches, LENGTH - 1, 0) == pytest.approx(
        whole, abs=1e-6
    )  # none is after it
    assert first_token.loss_without(model, stretches, 0, 0) != pytest.approx(whole, abs=1e-6)


def test_importance_is_the_slope_of_a_mask(decoder):
    model, stretches = decoder
    found = pruned_heads.importances(model, stretches[:1], 2, HEADS)
    assert torch.allclose(found.norm(dim=1), torch.ones(2))

    def loss(layer: int, head: int, factor: float) -> float:
        edit = SetHeads(address=f"layers.{layer}.attention", to=lambda outputs: outputs * factor, heads=[head])
        with change(model.model, edit):
            return pruned_heads.loss_without(model, stretches[:1], [])

    step = 0.05
    for layer in range(2):
        slopes = [abs(loss(layer, head, 1 + step) - loss(layer, head, 1 - step)) / (2 * step) for head in range(HEADS)]
        slopes = [slope / np.linalg.norm(slopes) for slope in slopes]
        assert found[layer].tolist() == pytest.approx(slopes, abs=0.03)


def test_experiments_on_the_users_own_text(text):
    sizes = {
        "width": 8,
        "heads": 2,
        "layers": 2,
        "vocabulary": 300,
        "length": LENGTH,
        "test_size": 4,
        "steps": 2,
        "batch": 2,
    }
    sinks = FirstToken(path=text, others=3, **sizes).run(1)
    assert sinks["weight of the first"] > 0
    pruned = PrunedHeads(path=text, **sizes).run(1)
    assert set(pruned["worth left"]) == {20, 40, 60, 80}  # type: ignore[arg-type]


def test_tau_counts_pairs():
    assert kendall(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == -1
    assert np.isnan(kendall(np.array([1.0, 1.0]), np.array([1.0, 2.0])))
    assert signed_texts(5, 1) == signed_texts(5, 1) != signed_texts(5, 2)


@pytest.mark.parametrize("gathering", ["attention", "average"])
def test_attention_is_held_against_gradients_and_leaving_out(gathering, tmp_path):
    path = tmp_path / "labelled.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in signed_texts(320, 1)))
    found = AttentionImportance(path=str(path), gathering=gathering, width=8, test_size=4, steps=2).run(1)
    assert 0 <= found["accuracy"] <= 100
    taus = [found[name] for name in list(found)[1:4]]
    assert all(-1 <= tau <= 1 for tau in taus) if gathering == "attention" else np.isnan(taus).all()


def test_errors_of_calibration_and_their_temperature():
    draw = np.random.Generator(np.random.Philox(5))
    logits = torch.from_numpy(draw.normal(size=(4000, 2)))
    right = torch.from_numpy((draw.random(4000) < logits.softmax(dim=1)[:, 1].numpy()).astype(np.int64))
    assert expected_error(logits, right) < 0.03
    assert expected_error(3 * logits, right) > 0.1
    assert best_temperature(3 * logits, right) == pytest.approx(3, rel=0.15)
    texts = topical_texts(2000, 1)
    wrong = [label not in text for text, label in texts]  # eight plain words are one text in 256
    assert 0.07 < np.mean(wrong) < 0.13


def test_small_runs_of_the_others():
    classified = Calibration(epochs=1, labels=20, test_size=30, size=100, pretraining_steps=2, width=8).run(1)
    assert 0 <= classified["ECE, rescaled"] <= 100
    words = InflectedWords(pairs=200, width=8, test_size=5, steps=2).run(1)
    assert words["tokens per word"] > 1
    beams = UnsureWords(width=8, size=200, test_size=3, steps=2, beams=(1, 2)).run(1)
    assert beams["log-probability"][2] >= beams["log-probability"][1] - 1e-4  # float32 sums of about 100


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        (FirstToken, {"layers": 1}, "experiment.layers"),
        (FirstToken, {"others": 50}, "experiment.others"),
        (PrunedHeads, {"heads": 1}, "experiment.heads"),
        (AttentionImportance, {"size": 10}, "experiment.size"),
        (UnsureWords, {"shares": (0.5, 0.4)}, "experiment.shares"),
        (Calibration, {"labels": 1}, "experiment.labels"),
        (InflectedWords, {"pairs": 10}, "experiment.pairs"),
    ],
)
def test_sizes_that_cannot_be_are_refused(kind, change, named):
    with pytest.raises(InputError, match=named):
        kind(**change)
