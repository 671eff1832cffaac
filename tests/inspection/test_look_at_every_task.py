"""`regard look` on the smallest model of every task and of every family: names on the axes are those of what was read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.checkpoints import read_card
from regard.cli.looking import _seen
from regard.errors import InputError
from regard.inspection import AttentionView
from regard.inspection.patches import png
from regard.tasks import TASKS

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"
WITHOUT_ATTENTION = {
    *("cho", "convolutional_network", "elmo", "infersent", "lstm_language_model", "lstm_transducer", "show_and_tell"),
    *("sutskever", "use_averaging"),
}


def task_of(folder: Path) -> str:
    return str(read_card(folder).task["name"])


MODELS = {folder.name: task_of(folder) for folder in sorted(FOLDERS.iterdir()) if (folder / "regard.json").exists()}


def read_by(folder: Path, place: Path) -> tuple[str, Path | None]:
    """A text, or the file of an image, that the model in a folder can read, and images to learn from."""
    model = regard.load(folder)
    if model.task.name == "copying":
        return "10 01 11", None
    if model.task.name in ("captioning", "image_classification", "few_shot"):
        size, drawn = model.task.size, np.random.default_rng(3)

        def draw(path: Path) -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(drawn.integers(0, 256, (size.height, size.width, 3), dtype=np.uint8)))

        draw(place / "asked.png")
        if model.task.name != "few_shot":
            return str(place / "asked.png"), None
        for number in range(model.task.ways * model.task.shots):
            draw(place / "shown" / f"kind{number % model.task.ways}" / f"{number}.png")
        return str(place / "asked.png"), place / "shown"
    return "a b <extra_id_0> c" if model.task.name == "span_corruption" else "a b c", None


def looked_at(name: str, place: Path) -> AttentionView:
    pytest.importorskip("PIL")
    text, support = read_by(FOLDERS / name, place)
    return _seen(FOLDERS / name, text, None, None, None, None, support)


def test_every_task_has_a_model_here():
    assert set(MODELS.values()) == set(TASKS.packaged)
    assert {MODELS[name] for name in MODELS if name not in WITHOUT_ATTENTION} == set(TASKS.packaged) - {
        "bidirectional_language_modelling"  # ELMo's, which has no attention
    }


@pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_ATTENTION])
def test_it_is_looked_at_with_names_on_the_axes(name, tmp_path):
    view = looked_at(name, tmp_path)
    for item in view.maps:
        for tokens in (item.query_tokens, item.key_tokens):
            assert not all(re.fullmatch(r"\d+", token) for token in tokens), (item.address, tokens)
            assert "" not in tokens
        assert np.isfinite(item.weights).all()
        assert item.weights.any()


@pytest.mark.parametrize("name", sorted(WITHOUT_ATTENTION & set(MODELS)))
def test_one_without_attention_is_refused_in_a_sentence(name, tmp_path):
    with pytest.raises(InputError, match="no attention"):
        looked_at(name, tmp_path)
