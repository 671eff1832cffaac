"""What is watched in a training is what `regard.look` sees in the model of that step, and training is the same without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.data.token_store import TokenStore
from regard.inspection import watch as watching
from regard.inspection.viewer import packed
from regard.inspection.watch import Watch, watched, watched_at, watched_steps
from regard.training.callbacks import Callback

TINY: dict[str, Any] = {
    "model": {
        "name": "transformer",
        "width": 16,
        "heads": 2,
        "feedforward_width": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "dropout": 0.1,
    },
    "data": {"dates": {"size": 60, "validation_size": 10, "languages": ["en"]}},
    "tokenizer": {"kind": "character", "size": 100},
    "training": {
        "steps": 6,
        "batch_tokens": 300,
        "evaluate_every": 2,
        "save_every": 2,
        "log_every": 1,
        "learning_rate": 1e-2,
        "warmup": 2,
        "precision": "float32",
    },
}


class Stop(Callback):
    """Ends a run after an update, as Ctrl-C would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, progress: Any, tokens_per_second: float) -> None:
        if progress.step == self.step:
            raise KeyboardInterrupt


class Kept(Callback):
    """Keeps the model of each evaluation, as it is then."""

    def __init__(self) -> None:
        self.models: dict[int, dict[str, torch.Tensor]] = {}

    def evaluated(self, predictor: Any, metrics: Any, progress: Any) -> None:
        self.models[progress.step] = {name: value.clone() for name, value in predictor.model.state_dict().items()}


def files(folder: Path) -> dict[str, bytes]:
    names = ("model.safetensors", "checkpoints/step-00000006/optimizer.safetensors")
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    told = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    return {name: (folder / name).read_bytes() for name in names} | {"log": json.dumps(told).encode()}


def test_what_is_kept_is_what_is_seen_in_the_model_of_that_step(tmp_path: Path) -> None:
    kept, folder = Kept(), tmp_path / "run"
    regard.train(TINY, output=folder, callbacks=[Watch(2), kept])
    assert watched_steps(folder) == [2, 4, 6]
    model, store = regard.load(folder), TokenStore.open(folder / "data" / "validation")
    seen = set()
    for step, parameters in kept.models.items():
        model.model.load_state_dict(parameters)
        view = watched(model, store, [0, 1])
        assert watched_at(folder, step) == packed(view, {"step": step})
        seen.add(watched_at(folder, step))
        # By hand: the model reads the source and the right answer.
        for example, row in enumerate((0, 1)):
            batch = model.task.read_batch(store, [row])
            with torch.no_grad(), regard.look(model) as record:
                model.model(batch.source, batch.target)
            for item in view.maps:
                if item.example == example:
                    assert np.array_equal(item.weights, record.weights(item.address)[0].numpy())
    assert len(seen) == 3  # it forms


SOFT = {
    "name": "show_attend_and_tell",
    "convolutions": [4, 6],
    "feature_width": 5,
    "embedding_width": 6,
    "hidden_width": 7,
    "attention_width": 3,
}
SCENES = {"scenes": {"size": 30, "validation_size": 6}}
OTHERS: dict[str, dict[str, Any]] = {
    "captions, soft attention": {"task": "captioning", "model": SOFT, "data": SCENES},
    "captions, hard attention": {"task": "captioning", "model": SOFT | {"attention": "hard"}, "data": SCENES},
    "Bahdanau": {
        "model": {"name": "bahdanau", "embedding_width": 8, "hidden_width": 9, "attention_width": 7, "maxout_width": 6}
    },
    "Luong, local": {"model": {"name": "luong", "embedding_width": 8, "hidden_width": 8, "attention": "local_p"}},
}


@pytest.mark.parametrize("name", OTHERS)
def test_captioners_and_recurrent_translators_are_watched_with_what_they_read(name: str, tmp_path: Path) -> None:
    training = TINY["training"] | {"steps": 2}
    recipe = {**{key: TINY[key] for key in ("data", "tokenizer")}, **OTHERS[name], "training": training}
    if "task" in recipe:
        del recipe["tokenizer"]
    said: list[str] = []
    run = regard.train(recipe, output=tmp_path / "run", callbacks=[Watch(2, say=said.append)])
    assert said == []
    assert watched_steps(run.folder) == [2]
    body = watched_at(run.folder, 2)
    head = json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])
    assert len(head["examples"]) == len(head["maps"]) == 2
    for number, item in enumerate(head["maps"]):
        assert (item["kind"], item["example"]) == ("cross", number)
        rows, keys = (head["sides"][item[side]]["tokens"] for side in ("query", "key"))
        assert len(rows) > 1
        assert bool(head["images"]) == ("task" in recipe)
        assert keys[0] == "patch␣1,1" if "task" in recipe else len(keys) > 4
    if name == "Luong, local":
        assert head["maps"][0]["marks"]["window"] > 0


def test_training_is_the_same_bit_for_bit_and_so_is_a_resumed_one(tmp_path: Path) -> None:
    plain, seen, cut = (tmp_path / name for name in ("plain", "seen", "cut"))
    regard.train(TINY, output=plain, callbacks=[])
    regard.train(TINY, output=seen, callbacks=[Watch(2)])
    with pytest.raises(KeyboardInterrupt):
        regard.train(TINY, output=cut, callbacks=[Watch(2), Stop(5)])
    assert watched_steps(cut) == [2, 4]
    regard.train(TINY, output=cut, resume=True, callbacks=[Watch(2)])
    assert files(seen) == files(plain)
    assert files(cut) == files(plain)
    assert [watched_at(cut, step) for step in (2, 4, 6)] == [watched_at(seen, step) for step in (2, 4, 6)]


def test_steps_after_the_checkpoint_are_cut_off_as_the_log_is(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        regard.train(TINY, output=folder, callbacks=[Watch(1), Stop(5)])
    (folder / "watched" / "step-00000099.bin").write_bytes(watched_at(folder, 4))
    (folder / "watched" / "notes.txt").write_text("mine")
    regard.train(TINY, output=folder, resume=True, callbacks=[Watch(1)])
    assert watched_steps(folder) == [2, 4, 6]
    assert (folder / "watched" / "notes.txt").is_file()


def test_there_is_a_bound_to_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_STEPS", 4)
    said: list[str] = []
    folder = tmp_path / "run"
    regard.train(TINY, ["training.evaluate_every=1"], output=folder, callbacks=[Watch(1)])
    assert watched_steps(folder) == [1, 3, 5, 6]
    monkeypatch.setattr(watching, "MOST_WEIGHTS", 10)
    other = tmp_path / "long"
    regard.train(TINY, output=other, callbacks=[Watch(3, say=said.append)])
    assert watched_steps(other) == []
    assert said == ["0 of 3 validation examples are watched: 10 were tried, of which 10 have more than 3 weights."]


def test_what_cannot_be_watched_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    model = {"name": "cho", "embedding_width": 6, "hidden_width": 6, "maxout_width": 4}
    regard.train(TINY | {"model": model}, output=tmp_path / "run", callbacks=[Watch(2, say=said.append)])
    assert said == ["there is no attention in this model to watch."]
    assert watched_steps(tmp_path / "run") == []
    with pytest.raises(regard.InputError, match="1 or more"):
        Watch(0)
    with pytest.raises(regard.InputError, match="was not watched"):
        watched_at(tmp_path / "run", 3)
    (tmp_path / "run" / "watched").mkdir()
    (tmp_path / "run" / "watched" / "step-00000003.bin").write_bytes(b"no")
    with pytest.raises(regard.InputError, match="is damaged"):
        watched_at(tmp_path / "run", 3)
