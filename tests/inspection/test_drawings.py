from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.errors import InputError
from regard.inspection.drawings import COLOURS, lines_figure, overlay_figure
from regard.inspection.plots import figure, write_figure
from regard.inspection.view import AttentionMap, AttentionView, Patches


def a_map(heads: int = 2) -> AttentionMap:
    weights = np.zeros((heads, 2, 3))
    weights[:, 0, 1] = 1
    weights[:, 1, :] = (0.5, 0.5, 0.001)
    view = AttentionView.of(weights, ["la", "$x_"], ["the", "white", "house"])
    return view.maps[0]


def an_image() -> AttentionView:
    weights = np.zeros((2, 2, 5))
    weights[0, 0, 1] = weights[1, 0, 4] = weights[:, 1, 2] = 1
    image = np.full((20, 30, 3), 255, dtype=np.uint8)
    return AttentionView.of(
        weights, ["a", "dog"], ["c", *"pppp"], image=image, key_patches=Patches(rows=2, columns=2, first=1)
    )


def drawn(figure) -> list[tuple[int, int, str]]:
    return [(*map(round, line.get_ydata()), line.get_color()) for line in figure.axes[0].lines]


def test_a_line_for_each_weight_that_can_be_seen():
    one = COLOURS[0]
    assert drawn(lines_figure(a_map(), heads=[0])) == [(0, 1, one), (1, 0, one), (1, 1, one)]
    assert {colour for *_, colour in drawn(lines_figure(a_map()))} == set(COLOURS[:2])
    assert drawn(lines_figure(a_map(), heads=[1], query=0)) == [(0, 1, COLOURS[1])]
    assert [text.get_text() for text in lines_figure(a_map()).axes[0].texts] == ["la", "$x_", "the", "white", "house"]


def test_lines_of_two_heads_that_attend_alike_can_be_told_apart():
    alike = AttentionView.of(np.ones((3, 1, 1)), ["a"], ["b"]).maps[0]
    heights = [float(line.get_ydata()[0]) for line in lines_figure(alike).axes[0].lines]
    assert heights == pytest.approx([-0.2, 0.0, 0.2])
    assert [float(line.get_ydata()[0]) for line in lines_figure(alike, heads=[2]).axes[0].lines] == [0.0]


def test_the_stronger_the_weight_the_stronger_the_line():
    strong, weak, _ = lines_figure(a_map(), heads=[0]).axes[0].lines
    assert strong.get_alpha() == 1 > weak.get_alpha() == 0.5
    assert strong.get_linewidth() > weak.get_linewidth()
    styles = [line.get_linestyle() for line in lines_figure(a_map(heads=8), query=0).axes[0].lines]
    assert styles == ["-"] * 7 + ["--"]


def test_a_legend_says_which_colour_is_which_head():
    legend = lines_figure(a_map(heads=9), heads=[1, 8]).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["head 1", "head 8"]
    first, second = legend.get_lines()
    assert (first.get_color(), first.get_linestyle()) == (COLOURS[1], "-")
    assert (second.get_color(), second.get_linestyle()) == (COLOURS[1], "--")  # the colours come again
    assert lines_figure(a_map(heads=1)).axes[0].get_legend() is None


def test_labels_are_inside_the_figure_however_it_is_saved():
    tokens = ["The", "Ġprogrammerprogrammerprogrammer", "Ġsaid"]
    view = AttentionView.of(
        np.tril(np.ones((2, 3, 3))), tokens, tokens, title="a title longer than the matrix below it, by much"
    )
    for drawing in (lines_figure(view.maps[0]), figure(view), overlay_figure(an_image(), "attention")):
        box = drawing.get_tightbbox(FigureCanvasAgg(drawing).get_renderer())
        width, height = drawing.get_size_inches()
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) > 0
    texts = [text.get_text() for text in lines_figure(view.maps[0]).axes[0].texts]
    assert texts[1] == "␣programmerprogrammerprogrammer"


def shades(figure) -> list[np.ndarray]:
    return [axes.images[1].get_array()[..., 3] for axes in figure.axes[0].child_axes]


def test_each_token_has_the_image_as_it_sees_it():
    figure = overlay_figure(an_image(), "attention", head=0)
    first, second = shades(figure)
    assert np.argwhere(first == 0).tolist() == [[0, 0]]  # the patch that is seen keeps its light
    assert np.argwhere(second == 0).tolist() == [[0, 1]]
    assert [axes.get_title(loc="left") for axes in figure.axes[0].child_axes] == ["a", "dog"]
    (mean,) = shades(overlay_figure(an_image(), "attention", queries=[0]))
    assert np.argwhere(mean == 0).tolist() == [[0, 0], [1, 1]]


def test_both_can_be_written(tmp_path):
    for name, drawing in (("lines", lines_figure(a_map())), ("over", overlay_figure(an_image(), "attention"))):
        for suffix in ("png", "svg"):
            write_figure(drawing, tmp_path / f"{name}.{suffix}", {}, dots_per_inch=80)
            assert (tmp_path / f"{name}.{suffix}").stat().st_size > 500


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: lines_figure(a_map(), heads=[2]), "heads 0 to 1"),
        (lambda: lines_figure(a_map(), heads=[]), "heads 0 to 1"),
        (lambda: lines_figure(a_map(), query=2), "no query 2"),
        (lambda: overlay_figure(an_image(), "attention", head=-1), "no head -1"),
        (lambda: overlay_figure(an_image(), "attention", queries=[7]), "0 to 1"),
        (lambda: overlay_figure(an_image(), "atention"), "did you mean"),
        (lambda: overlay_figure(AttentionView(title="", maps=(a_map(),)), "attention"), "needs an image"),
    ],
)
def test_what_is_not_there_is_said(draw, message):
    with pytest.raises(InputError, match=message):
        draw()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[plot\]'"):
        lines_figure(a_map())
