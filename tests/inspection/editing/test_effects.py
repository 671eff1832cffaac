"""Ablation and activation patching: effects that are known beforehand."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.inspection.editing import ScaleHeads, ablate, change, patch


class Heads(nn.Module):
    """Two attention layers over the same input, added up; the second's output counts ten times."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.MultiheadAttention(8, 2, batch_first=True)
        self.second = nn.MultiheadAttention(8, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x, x, x)[0] + 10 * self.second(x, x, x)[0]


@pytest.fixture
def heads() -> Heads:
    torch.manual_seed(0)
    return Heads().eval()


X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
Y = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(2))


def total(model: nn.Module, x: Tensor = X) -> float:
    with torch.no_grad():
        return model(x).sum().item()


def test_every_head_and_layer_is_silenced_once(heads):
    found = ablate(heads, lambda: total(heads))
    assert [(row.address, row.part) for row in found.rows] == [
        ("first", 0),
        ("first", 1),
        *(("second", i) for i in range(4)),
    ]
    assert found.baseline == pytest.approx(total(heads), rel=1e-5)
    for row in found.rows:
        with change(heads, ScaleHeads(address=row.address, heads=[row.part])):
            assert row.score == pytest.approx(total(heads), rel=1e-4, abs=1e-4)
        assert row.effect == pytest.approx(row.score - found.baseline, abs=1e-5)
    # The score is linear in the heads, so that what the heads of a layer do adds up to what the layer does.
    layers = ablate(heads, lambda: total(heads), by="layer")
    for row in layers.rows:
        parts = sum(one.effect for one in found.rows if one.address == row.address)
        assert row.effect == pytest.approx(parts, abs=1e-3)
    assert abs(layers.rows[1].effect) > abs(layers.rows[0].effect)
    assert found.strongest(1)[0].address == "second"


def test_mean_ablation_keeps_what_a_head_always_says(heads):
    """Where all rows and positions are the same, putting the mean in changes nothing."""
    same = X[:1, :1].expand(2, 5, 8)
    found = ablate(heads, lambda: total(heads, same), to="mean")
    assert max(abs(row.effect) for row in found.rows) < 1e-3
    assert max(abs(row.effect) for row in ablate(heads, lambda: total(heads, same)).rows) > 1e-2


def test_chosen_layers_and_what_is_shown(heads, tmp_path, capsys):
    found = ablate(heads, lambda: total(heads), ["first"])
    assert {row.address for row in found.rows} == {"first"}
    found.show()
    printed = capsys.readouterr().out
    assert "first" in printed
    assert "nothing changed" in printed
    found.show(tmp_path / "effects.json")
    assert json.loads((tmp_path / "effects.json").read_text())["maps"][0]["key_tokens"] == ["head 0", "head 1"]
    assert json.loads(found.to_json())["rows"][0]["address"] == "first"
    view = found.view().maps[0]
    assert view.weights[0, 0].tolist() == pytest.approx([row.effect for row in found.rows])


def test_patching_every_layer_restores_its_share(heads):
    """The score is a sum over two layers, so that their shares are those of the sum, and add up to all of it."""
    found = patch(heads, lambda: heads(X), lambda: heads(Y), lambda out: out.sum().item(), by="layer")
    assert sum(row.effect for row in found.rows) == pytest.approx(1, abs=1e-3)
    assert found.clean == pytest.approx(total(heads, X), rel=1e-4)
    assert found.baseline == pytest.approx(total(heads, Y), rel=1e-4)
    single = patch(heads, lambda: heads(X), lambda: heads(Y), lambda out: out.sum().item())
    assert len(single.rows) == 6
    for row in found.rows:
        parts = sum(one.effect for one in single.rows if one.address == row.address)
        assert parts == pytest.approx(row.effect, abs=1e-3)


def test_patching_hidden_states_by_position():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    same = X.clone()
    same[:, 2] = Y[:, 2]  # the two inputs differ at one place

    def score(out: Tensor) -> float:
        return out[..., 0].sum().item()

    found = patch(model, lambda: model(X), lambda: model(same), score, hidden=["0", "1"], by_position=True)
    effects = {(row.address, row.part): row.effect for row in found.rows}
    for (_, position), effect in effects.items():
        assert effect == pytest.approx(1.0 if position == 2 else 0.0, abs=1e-4)
    assert found.parts == "position"


def test_a_translators_heads(translator):
    """Which head an answer's probability rests on, with a loaded model."""
    looked_at = translator("transformer")
    batch = looked_at.teacher_forced([("abc", "AB")])

    def score() -> float:
        with torch.no_grad():
            logits = looked_at.model(batch.source, batch.target)
        return logits.log_softmax(dim=-1)[0, 0, 5].item()

    found = ablate(looked_at, score, ["decoder.*.cross_attention"])
    assert len(found.rows) == 2 * 3
    assert any(abs(row.effect) > 1e-3 for row in found.rows)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda model: ablate(model, lambda: 1.0), "called no attention"),
        (lambda model: ablate(model, lambda: model(X)), "the score is a Tensor, not a number"),
        (lambda model: ablate(model, lambda: float("nan") + total(model)), "NaN"),
        (lambda model: ablate(model, lambda: total(model), ["third"]), "no attention layer is called 'third'"),
        (
            lambda model: patch(model, lambda: model(X), lambda: model(X), lambda out: out.sum().item()),
            "both inputs have",
        ),
        (
            lambda model: patch(model, lambda: model(X), lambda: model(Y[:, :3]), lambda out: out.sum().item()),
            "not of the same size",
        ),
        (lambda model: patch(model, int, int, float, ["first"], hidden=["first"]), "both given"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(work: Any, message, heads):
    with pytest.raises(regard.InputError, match=message):
        work(heads)
