"""Figures as the papers draw them: what is drawn are the model's own numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import regard
from regard.errors import InputError
from regard.inspection import AttentionView
from regard.inspection.drawings import OPAQUE, overlay_figure
from regard.inspection.memory import memory_figure, memory_trace
from regard.inspection.papers import document_figure, reading_figure, signed_figure
from regard.inspection.text_reader import TextReader
from regard.inspection.view import SENTENCES, WORDS, Patches

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"


def images(figure) -> dict[str, np.ndarray]:
    return {axes.get_title(loc="left"): np.asarray(axes.images[0].get_array()) for axes in figure.axes}


def test_a_memory_over_time_is_what_went_through_the_model():
    """Against the recorder's weights, and against outputs = W [h ; r] by the model itself."""
    copier = regard.load(FOLDERS / "ntm")
    trace = memory_trace(copier, "10 01 11")
    with regard.look(copier) as record:
        copied = copier.copy([[1, 0], [0, 1], [1, 1]])
    weights = record.weights("memory")[0].numpy()
    np.testing.assert_allclose(trace.read_weights[0], weights[0], atol=1e-6)
    np.testing.assert_allclose(trace.write_weights[0], weights[1], atol=1e-6)
    np.testing.assert_allclose(trace.outputs[4:], copied.probabilities, atol=1e-6)
    np.testing.assert_allclose(
        trace.read[0], np.einsum("tn,tnw->tw", trace.read_weights[0], trace.memory[:-1]), atol=1e-6
    )
    assert trace.inputs[:3, :2].tolist() == [[1, 0], [0, 1], [1, 1]]
    assert trace.inputs[3].tolist() == [0, 0, 1]
    drawn = images(memory_figure(trace, title="three"))
    assert list(drawn) == ["inputs", "outputs", "added to the memory", "read", "write weights", "read weights"]
    np.testing.assert_allclose(drawn["write weights"], trace.write_weights[0].T)
    np.testing.assert_allclose(drawn["added to the memory"], trace.added[0].T)
    assert np.ma.masked_invalid(drawn["outputs"]).mask[:, :4].all()
    with pytest.raises(InputError, match="has no memory to show"):
        memory_trace(regard.load(FOLDERS / "lstm_transducer"), "10")


def test_a_document_has_a_bar_for_each_sentence_and_shades_by_the_root_of_its_weight():
    view = TextReader.load(FOLDERS / "han").view("A b. C a b.")
    figure = document_figure(view, predicted="yes", label="no")
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == "predicted class: yes, label: no"
    sentences, words = view.map(SENTENCES).weights[0, 0], view.map(WORDS).weights[0]
    bars = [patch for patch in axes.patches if patch.get_height() == pytest.approx(0.7)]
    np.testing.assert_allclose([bar.get_width() for bar in bars], 6 * sentences / sentences.max(), rtol=1e-5)
    shares = np.sqrt(sentences)[:, None] * words
    shades = [patch for patch in axes.patches if patch.get_height() == pytest.approx(0.88)]
    from matplotlib import colormaps

    wanted = [colormaps["Blues"](0.8 * float(share / shares.max())) for share in shares[words > 0]]
    np.testing.assert_allclose([patch.get_facecolor() for patch in shades], wanted, atol=0.01)
    with pytest.raises(InputError, match="those of a han"):
        document_figure(AttentionView.of(np.eye(2), ["a", "b"], ["a", "b"]))


def test_a_reader_has_a_line_for_each_word_with_those_before():
    weights = np.array([[0, 0, 0], [1, 0, 0], [0.25, 0.75, 0.0]])
    view = AttentionView.of(weights, ["the", "cat", "sat"], ["the", "cat", "sat"])
    texts = reading_figure(view).axes[0].texts
    assert [text.get_text() for text in texts] == ["the", "the", "cat", "the", "cat", "sat"]
    assert [text.get_text() for text in texts if text.get_fontweight() == "bold"] == ["the", "cat", "sat"]
    with pytest.raises(InputError, match="of models that read from the left"):
        reading_figure(AttentionView.of(np.ones((2, 2)), ["a", "b"], ["a", "b"]))


def test_weights_of_both_signs_are_colours_over_grey_on_any_image():
    weights = np.array([[0.5, -1.0, 0.0, 0.2]])
    for brightness in (0, 255):
        image = np.full((8, 8, 3), brightness, np.uint8)
        grid = Patches(rows=2, columns=2)
        view = AttentionView.of(weights, ["q"], list("abcd"), image=image, key_patches=grid)
        axes = overlay_figure(view, "attention").axes[0].child_axes[0]
        grey, colours = (np.asarray(image.get_array()) for image in axes.images)
        assert 0.3 < grey.mean() < 0.7  # neither black nor white, so that both colours show
        red, green, blue, opacity = np.moveaxis(colours, -1, 0)
        assert red[0, 0] > blue[0, 0]  # orange above zero
        assert blue[0, 1] > green[0, 1]  # violet below
        np.testing.assert_allclose(opacity.ravel(), OPAQUE * np.abs(weights[0]) ** 0.7, atol=1e-6)
        assert len(axes.lines) == 4  # a line around the one cell of more than half of the largest
    with pytest.raises(InputError, match="not patches of an image"):
        signed_figure(view)
