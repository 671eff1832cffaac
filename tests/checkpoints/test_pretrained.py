"""Starting from trained weights: what is taken, what is new, and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoints import adopt, parameters_of, write_model
from regard.errors import InputError
from regard.models import MODELS, BertConfig, DistilBertConfig

SIZES: dict[str, Any] = {
    "vocabulary": 9,
    "width": 8,
    "heads": 2,
    "feedforward_width": 6,
    "layers": 3,
    "maximum_positions": 7,
}


def bert(**changes: Any) -> BertConfig:
    return BertConfig(**(SIZES | changes))


def distilbert(**changes: Any) -> DistilBertConfig:
    return DistilBertConfig(**(SIZES | changes))


@pytest.fixture
def build(seeded, randomize):
    return lambda config: randomize(MODELS[config.model_type].model(config))


@pytest.fixture
def stored(build, tmp_path):
    """The folder of a model of a config, and its parameters."""

    def make(config: Any) -> tuple[Path, dict[str, torch.Tensor]]:
        model = build(config)
        write_model(tmp_path, config, parameters_of(model), task={}, recipe={}, metrics={})
        return tmp_path, parameters_of(model)

    return make


def own(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in parameters_of(model).items()}


@pytest.mark.parametrize(
    ("start", "config", "kept", "said"),
    [
        (bert(), bert(head="sequence", outputs=3), {"pooler"}, "new are head."),
        (bert(), bert(), {"pooler"}, "nothing is new."),
        (bert(pooler=False), bert(head="sequence", outputs=3), set(), "new are head and pooler."),
        (bert(), bert(head="tokens", outputs=3), set(), "new are head."),
        (bert(head="pretraining", outputs=2), bert(), {"pooler"}, "nothing is new."),
        (bert(head="sequence", outputs=3), bert(head="sequence", outputs=3), {"head", "pooler"}, "nothing is new."),
        (bert(head="sequence", outputs=3), bert(head="sequence", outputs=4), {"pooler"}, "new are head."),
        (bert(head="masked"), bert(head="masked"), {"head"}, "nothing is new."),
        (bert(head="masked"), bert(head="sequence", outputs=2), set(), "new are head and pooler."),
        (distilbert(), distilbert(head="sequence", outputs=2), set(), "new are head and pooler."),
        (
            distilbert(head="sequence", outputs=2),
            distilbert(head="choice", outputs=1),
            set(),
            "new are head and pooler.",
        ),
        (
            distilbert(head="choice", outputs=1),
            distilbert(head="choice", outputs=1),
            {"head", "pooler"},
            "nothing is new.",
        ),
        (bert(), distilbert(head="sequence", outputs=2), set(), "new are head and pooler."),
        (bert(head="masked"), distilbert(head="masked"), {"head"}, "nothing is new."),
        (distilbert(head="masked"), distilbert(), set(), "nothing is new."),
    ],
)
def test_the_encoder_is_taken_and_what_belongs_to_another_task_is_new(start, config, kept, said, stored, build):
    folder, found = stored(start)
    model = build(config)
    before = own(model)
    sentence = adopt(model, folder)
    assert sentence == f"weights of {folder}; {said}"
    now = parameters_of(model)
    for name, tensor in now.items():
        part = name.split(".")[0]
        if part in ("head", "pooler") and part not in kept:
            assert torch.equal(tensor, before[name]), name
        else:
            assert torch.equal(tensor, found[name]), name


@pytest.mark.parametrize(
    ("theirs", "ours", "names"),
    [
        (
            "pretraining",
            "masked",
            {"head.masked.norm.weight": "head.norm.weight", "head.masked.output.bias": "head.output.bias"},
        ),
        ("masked", "pretraining", {"head.transform.weight": "head.masked.transform.weight"}),
        ("pretraining", "next_sentence", {"head.next_sentence.output.weight": "head.output.weight"}),
        ("next_sentence", "pretraining", {"head.output.bias": "head.next_sentence.output.bias"}),
    ],
)
def test_the_heads_of_pre_training_are_taken_one_from_the_other(theirs, ours, names, stored, build):
    outputs = {"masked": 0}
    folder, found = stored(bert(head=theirs, outputs=outputs.get(theirs, 2)))
    model = build(bert(head=ours, outputs=outputs.get(ours, 2)))
    before = own(model)
    adopt(model, folder)
    now = parameters_of(model)
    for old, new in names.items():
        assert torch.equal(now[new], found[old])
        assert not torch.equal(before[new], found[old])


def test_a_tied_table_stays_tied(stored, build):
    folder, found = stored(bert())
    model = build(bert(head="masked"))
    adopt(model, folder)
    assert model.head.output.weight is model.embedding.tokens.weight
    assert torch.equal(model.head.output.weight, found["embedding.tokens.weight"])


@pytest.mark.parametrize("layers", [[0, 2], [2, 0, 1, 1], [1]])
def test_some_layers_are_taken_in_the_order_that_is_given(layers, stored, build):
    """As DistilBERT starts from every other layer of its teacher."""
    folder, found = stored(bert())
    model = build(distilbert(layers=len(layers)))
    adopt(model, folder, layers=layers)
    now = parameters_of(model)
    for index, layer in enumerate(layers):
        for part in ("attention.query.weight", "feedforward.outer.bias", "attention_residual.after.weight"):
            assert torch.equal(now[f"layers.{index}.{part}"], found[f"layers.{layer}.{part}"])


@pytest.mark.parametrize(
    ("config", "layers", "message"),
    [
        (bert(width=4), None, r"embedding.tokens.weight is \(9, 8\) where \(9, 4\) is wanted"),
        (bert(vocabulary=10), None, r"embedding.tokens.weight is \(9, 8\) where \(10, 8\) is wanted"),
        (bert(maximum_positions=5), None, r"embedding.positions.weight is \(7, 8\) where \(5, 8\) is wanted"),
        (bert(layers=2), None, "not known layers.2"),
        (bert(layers=4), None, "missing layers.3"),
        (bert(layers=2), [0, 3], "has no layer 3, only 0 to 2; see model.pretrained_layers"),
        (bert(layers=1), [-1], "has no layer -1, only 0 to 2"),
        (bert(layers=2), [1], "missing layers.1"),
    ],
)
def test_what_does_not_fit_is_told_and_nothing_is_copied(config, layers, message, stored, build):
    folder, _ = stored(bert())
    model = build(config)
    before = own(model)
    with pytest.raises(InputError, match=message):
        adopt(model, folder, layers=layers)
    assert all(torch.equal(tensor, before[name]) for name, tensor in parameters_of(model).items())


def test_segments_that_the_folder_has_not_cannot_be_made_up(stored, build):
    folder, _ = stored(distilbert())
    with pytest.raises(InputError, match=r"missing embedding.segments.weight"):
        adopt(build(bert(pooler=False)), folder)


def test_random_numbers_are_not_touched(stored, build):
    folder, _ = stored(bert())
    model = build(bert(head="sequence", outputs=2))
    state = torch.get_rng_state()
    adopt(model, folder)
    assert torch.equal(torch.get_rng_state(), state)
