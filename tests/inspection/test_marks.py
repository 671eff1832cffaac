"""What local attention and hashing decided before they had scores, against the models' own modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.attention import LSHAttention
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.inspection import AttentionView
from regard.inspection.marks import Marks

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"


@pytest.mark.parametrize("beam", [1, 3])
def test_local_attention_has_its_centres_and_windows(translator, beam):
    """p = S sigmoid(v tanh(Wp h)) of each step of the hypothesis that survived, and no weight outside its window."""
    luong = translator("luong")
    with regard.look(luong) as seen:
        luong.translate("abcdefgh", GenerationSettings(beam=beam, maximum_length=7))
    item = next(one for one in seen.view(0).maps if one.kind == "cross")
    marks = item.marks
    assert marks is not None
    assert marks.window == 2
    assert len(marks.centres[0]) == len(item.query_tokens)
    places = np.arange(len(item.key_tokens))
    for centre, weights in zip(marks.centres[0], item.weights[0], strict=True):
        assert (weights[np.abs(places - centre) > 2] == 0).all()
        bell = np.exp(-((places - centre) ** 2) / 2)  # the deviation is half of the window
        inside = np.abs(places - centre) <= 2
        if inside.any():
            np.testing.assert_allclose((weights[inside] / bell[inside]).sum(), 1, atol=1e-4)
    assert AttentionView.from_json(seen.view(0).to_json()) == seen.view(0)


@pytest.mark.parametrize("sets", ["bucket", "chunk"])
def test_reformer_has_its_buckets_and_chunks(sets):
    reader = regard.load(FOLDERS / "reformer")
    for part in reader.model.modules():
        if isinstance(part, LSHAttention):
            part.sets = sets
    text = " ".join("abcab" for _ in range(6))
    ids = reader.task.prompted(reader.task.tokenizer.encode(text))[: reader.model.maximum_length - 1]
    batch = reader.task.batch([[*ids, reader.task.tokenizer.end_id]])
    with regard.look(reader) as seen, torch.no_grad():
        reader.model(batch.tokens)
    view = seen.view(0)
    hashed = [one for one in view.maps if one.marks is not None and one.marks.buckets]
    assert hashed
    for item in hashed:
        marks = item.marks
        for head, weights in enumerate(item.weights):
            rounds = np.array(marks.buckets[head])
            chunked = np.array([marks.chunks(head, turn) for turn in range(len(rounds))])
            back = chunked[:, :, None] - chunked[:, None, :]
            near = (back == 0) | (back == 1)  # the own chunk and the one before
            if sets == "bucket":
                near &= rounds[:, :, None] == rounds[:, None, :]
            else:
                near |= (chunked == 0)[:, :, None]  # before the first stands the last of the round before
            assert not weights[~near.any(axis=0)].any()
            for turn in range(len(rounds)):
                order = marks.order(head, turn)
                assert [rounds[turn][key] for key in order] == sorted(rounds[turn])
                chunks = marks.chunks(head, turn)
                assert max(np.bincount(chunks)) <= marks.chunk
    assert AttentionView.from_json(view.to_json()) == view


def test_marks_of_another_map_are_refused_and_heads_take_theirs_along():
    view = AttentionView.of(np.ones((2, 1, 3)), ["a"], list("xyz"))
    marks = Marks(centres=[[0.5], [1.5]], window=1)
    marked = replace(view, maps=(replace(view.maps[0], marks=marks),))
    assert marked.with_heads(["1"]).maps[0].marks == Marks(centres=[[1.5]], window=1)
    for wrong in (Marks(centres=[[0.5]], window=1), Marks(buckets=[[[0, 1]]] * 2), Marks(borders=(3,))):
        with pytest.raises(InputError, match="those of another map"):
            replace(view.maps[0], marks=wrong)
    with pytest.raises(InputError, match="lists of numbers"):
        Marks(centres=["ab"])
    older = view.to_json().replace('"format_version": 4', '"format_version": 2').replace(', "marks": null', "")
    older = older.replace(', "tracks": []', "")
    assert AttentionView.from_json(older) == view


def test_plots_draw_them():
    pytest.importorskip("matplotlib")
    from regard.inspection.papers import buckets_figure
    from regard.inspection.plots import figure

    weights = np.full((1, 2, 4), 0.25)
    view = AttentionView.of(weights, ["a", "b"], list("wxyz"))
    marked = replace(view, maps=(replace(view.maps[0], marks=Marks(centres=[[0.4, 2.6]], window=1)),))
    axes = figure(marked).axes[0]
    assert [(box.get_x(), box.get_width()) for box in axes.patches] == [(-0.5, 2), (1.5, 2)]
    assert [line.get_xdata()[0] for line in axes.lines] == [0.4, 2.6]
    view = AttentionView.of(np.tril(np.ones((1, 4, 4))), list("wxyz"), list("wxyz"))
    marked = replace(view, maps=(replace(view.maps[0], marks=Marks(buckets=[[[1, 0, 1, 0]]], chunk=2)),))
    assert len(figure(marked).axes[0].patches) == 4
    axes = buckets_figure(marked).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "z", "w", "y"]
    np.testing.assert_array_equal(axes.images[0].get_array(), view.maps[0].weights[0][[1, 3, 0, 2]][:, [1, 3, 0, 2]])
    with pytest.raises(InputError, match="no layer hashes here"):
        buckets_figure(view)
